CREATE OR REPLACE FUNCTION medusa_market.set_partner(
    partner text, url text, pin text, lapses_at timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before text;
BEGIN
    IF set_partner.partner = medusa_market.here() THEN
        RAISE EXCEPTION '% is the participant of this home: name a partner', set_partner.partner
            USING ERRCODE = 'MD001';
    END IF;
    SELECT p.url INTO before FROM medusa_market.partner AS p
    WHERE p.participant = set_partner.partner;
    INSERT INTO medusa_market.partner AS p (participant, url, pin, confirmed_at, lapses_at)
    VALUES (set_partner.partner, set_partner.url, set_partner.pin,
        CASE WHEN set_partner.lapses_at IS NULL THEN clock_timestamp() END, set_partner.lapses_at)
    ON CONFLICT (participant) DO UPDATE SET url = EXCLUDED.url, pin = EXCLUDED.pin,
        is_removed = false, changed_at = clock_timestamp(), changed_by = session_user,
        confirmed_at = EXCLUDED.confirmed_at, lapses_at = EXCLUDED.lapses_at;
    PERFORM medusa_market.write_audit('partner', set_partner.partner, to_jsonb(before),
        to_jsonb(set_partner.url));
END $$;
COMMENT ON FUNCTION medusa_market.set_partner(text, text, text, timestamptz) IS
    'Store the address of a partner; lapses_at is NULL for one that need not prove its key first.';
