CREATE OR REPLACE FUNCTION medusa_market.decoded(given text, format text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN decode(given, format);
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.decoded(text, text) IS
    'The bytes that a text encodes; NULL for NULL.';
