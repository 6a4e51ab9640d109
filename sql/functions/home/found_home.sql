CREATE OR REPLACE FUNCTION medusa.found_home(participant text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner text;
BEGIN
    INSERT INTO medusa.participant (name) VALUES (found_home.participant) ON CONFLICT DO NOTHING;
    INSERT INTO medusa.home (participant) VALUES (found_home.participant) ON CONFLICT DO NOTHING;
    SELECT h.participant INTO owner FROM medusa.home AS h;
    IF owner <> found_home.participant THEN
        RAISE EXCEPTION 'this is the home of %: create another database for %',
            owner, found_home.participant USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.found_home(text) IS
    'Record the participant of this home; the same again has no effect.';
