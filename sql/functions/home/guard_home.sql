CREATE OR REPLACE FUNCTION medusa.guard_home() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.participant <> OLD.participant THEN
        RAISE EXCEPTION 'this is the home of %: create another database for %',
            OLD.participant, NEW.participant USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_home() IS 'A home belongs to one participant.';
