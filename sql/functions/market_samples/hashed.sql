CREATE OR REPLACE FUNCTION medusa_market.hashed(seed bytea, times bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bytea := seed;
BEGIN
    FOR at IN 1..times LOOP
        found := sha256(found);
    END LOOP;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa_market.hashed(bytea, bigint) IS
    'SHA-256, repeated; the chain of medusa_core/market/samples.py.';
