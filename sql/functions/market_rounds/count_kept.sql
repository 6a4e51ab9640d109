CREATE OR REPLACE FUNCTION medusa_market.count_kept() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sender text;
    more   bigint;
BEGIN
    IF TG_OP = 'INSERT' AND NOT NEW.is_own THEN
        more := octet_length(NEW.body);
        SELECT o.partner INTO sender FROM medusa_market.offer AS o WHERE o.offer_id = NEW.offer_id;
    ELSIF TG_OP = 'DELETE' AND NOT OLD.is_own THEN
        more := -octet_length(OLD.body);
        IF TG_TABLE_NAME = 'offer' THEN
            sender := OLD.partner;
        ELSE
            SELECT o.partner INTO sender FROM medusa_market.offer AS o
                WHERE o.offer_id = OLD.offer_id;
        END IF;
    END IF;
    INSERT INTO medusa_market.partner_share AS s (partner, kind, began_at, messages, bytes)
    SELECT sender, 'kept', clock_timestamp(), sign(more), more WHERE more IS NOT NULL
    ON CONFLICT (partner, kind) DO UPDATE SET messages = s.messages + EXCLUDED.messages,
        bytes = s.bytes + EXCLUDED.bytes;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.count_kept() IS
    'The size of a partner''s offers and answers that are stored here.';
