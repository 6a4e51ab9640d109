CREATE OR REPLACE FUNCTION medusa_market.charge_share(envelope medusa_market.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lasts_ms     bigint := 3600000;
    messages_max integer := 4096;
    bytes_max    bigint := 67108864;
    used         medusa_market.partner_share;
BEGIN
    IF envelope.kind IN ('offer', 'answer') THEN
        SELECT coalesce(max(m.round_ms), 60000) INTO lasts_ms FROM medusa_market.market AS m;
        messages_max := CASE envelope.kind WHEN 'offer' THEN 64 ELSE 128 END;
        bytes_max := 524288;
    ELSIF envelope.kind = 'want' THEN
        messages_max := 1024;
    ELSIF envelope.kind IN ('definition', 'defined') THEN
        messages_max := 128;
    ELSIF envelope.kind IN ('move', 'moved') THEN
        messages_max := 256;
    ELSIF envelope.kind = 'notice' THEN
        messages_max := 2048;
    ELSIF envelope.kind IN ('status', 'holdings') THEN
        messages_max := 512;
    END IF;
    INSERT INTO medusa_market.partner_share AS s (partner, kind, began_at, messages, bytes)
    VALUES (envelope.sender, envelope.kind, clock_timestamp(), 1, envelope.bytes)
    ON CONFLICT (partner, kind) DO UPDATE SET (began_at, messages, bytes) = (
        SELECT CASE WHEN w.is_over THEN EXCLUDED.began_at ELSE s.began_at END,
            CASE WHEN w.is_over THEN 1 ELSE s.messages + 1 END,
            CASE WHEN w.is_over THEN EXCLUDED.bytes ELSE s.bytes + EXCLUDED.bytes END
        FROM (SELECT s.began_at + lasts_ms * interval '1 ms' <= clock_timestamp()) AS w (is_over))
    RETURNING s.* INTO used;
    IF used.messages > messages_max OR used.bytes > bytes_max THEN
        PERFORM medusa_market.refuse_too_much(format(
            '%s has sent %s messages of kind %s, or %s bytes of '
            'them, within %s s: it may make no more until they are over', envelope.sender,
            messages_max, envelope.kind, bytes_max, lasts_ms / 1000));
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.charge_share(medusa_market.inbox) IS
    'Count a verified envelope against its sender''s share of its kind: of offers and answers a '
    'round''s, of messages about contracts an hour''s.';
