CREATE OR REPLACE FUNCTION medusa_market.this_round() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    SELECT max(r.number) INTO found FROM medusa_market.round AS r;
    IF found IS NULL THEN
        RAISE EXCEPTION 'no round was ever opened here: open one' USING ERRCODE = 'MD002';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa_market.this_round() IS 'The round that is open.';
