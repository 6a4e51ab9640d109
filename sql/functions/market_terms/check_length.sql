CREATE OR REPLACE FUNCTION medusa_market.check_length(what text, ms bigint,
    lowest bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (ms >= lowest AND ms < 9007199254740992) IS NOT TRUE THEN
        RAISE EXCEPTION '% is % ms: write a duration, in milliseconds', what,
            coalesce(ms::text, 'missing') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_length(text, bigint, bigint) IS
    'Refuse a duration that is NULL, too short or beyond reason.';
