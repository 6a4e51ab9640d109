CREATE OR REPLACE FUNCTION medusa_market.check_length(what text, ms bigint,
    lowest bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (ms BETWEEN lowest AND 366 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION '% is % ms: write a duration in milliseconds, 366 days at most', what,
            coalesce(ms::text, 'missing') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_length(text, bigint, bigint) IS
    'Refuse a duration that is NULL, too short or longer than 366 days.';
