CREATE OR REPLACE FUNCTION medusa_market.note_introduction(
    partner text, known_key bytea, public_key bytea, url text, pin text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    is_new boolean := false;
    a_day_ago CONSTANT timestamptz := clock_timestamp() - interval '1 day';
BEGIN
    IF medusa_market.is_current_key(note_introduction.partner, note_introduction.known_key)
            IS NOT TRUE
        OR note_introduction.partner = medusa_market.here()
    THEN
        RETURN false;
    END IF;
    IF medusa_market.key_of(note_introduction.partner) = note_introduction.known_key
        AND note_introduction.public_key <> note_introduction.known_key
        AND (SELECT count(*) FROM medusa_market.party_key AS k
            WHERE k.participant = note_introduction.partner AND k.is_succession
                AND k.learned_at > a_day_ago) < 16
    THEN
        is_new := medusa_market.learn_key(note_introduction.partner, note_introduction.public_key,
            'signed by the key before', true, true);
    END IF;
    UPDATE medusa_market.partner AS p SET url = note_introduction.url, pin = note_introduction.pin,
        changed_at = clock_timestamp(), changed_by = session_user
    WHERE p.participant = note_introduction.partner AND note_introduction.url IS NOT NULL
        AND (p.url, p.pin) IS DISTINCT FROM (note_introduction.url, note_introduction.pin)
        AND medusa_market.moves_of(note_introduction.partner) < 64;
    IF FOUND THEN
        PERFORM medusa_market.write_audit('moved partner', note_introduction.partner, NULL,
            to_jsonb(note_introduction.url));
    END IF;
    RETURN is_new OR FOUND;
END $$;
COMMENT ON FUNCTION medusa_market.note_introduction(text, bytea, bytea, text, text) IS
    'Store what a partner has signed with the known key: another key, which succeeds it, and the '
    'address of its server: 16 keys and 64 addresses a day, since all of them are kept. The '
    'signatures have been verified; returns whether anything is new.';
