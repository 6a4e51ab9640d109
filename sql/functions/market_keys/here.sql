CREATE OR REPLACE FUNCTION medusa_market.here() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    SELECT h.participant INTO name FROM medusa.home AS h;
    IF name IS NULL THEN
        RAISE EXCEPTION 'this database has not been initialised: run medusa migrate' USING ERRCODE = 'MD001';
    END IF;
    RETURN name;
END $$;
COMMENT ON FUNCTION medusa_market.here() IS
    'The participant of this home.';
