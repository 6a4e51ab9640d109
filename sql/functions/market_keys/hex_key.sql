CREATE OR REPLACE FUNCTION medusa_market.hex_key(public_key text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (hex_key.public_key ~ '^[0-9a-f]{64}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'a key is written as 64 hexadecimal digits, as its owner shows it'
            USING ERRCODE = 'MD001';
    END IF;
    RETURN decode(hex_key.public_key, 'hex');
END $$;
COMMENT ON FUNCTION medusa_market.hex_key(text) IS 'A key in hexadecimal digits as its bytes.';
