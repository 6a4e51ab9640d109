CREATE OR REPLACE FUNCTION medusa_market.check_amount(
    what text, amount numeric, lowest numeric DEFAULT 0.000001
) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (amount BETWEEN lowest AND 1000000000000 AND amount = round(amount, 6)) IS NOT TRUE THEN
        RAISE EXCEPTION '% is %: write a number %, 1,000,000,000,000 at most, with six decimal '
            'places at most', what, coalesce(left(amount::text, 60), 'missing'),
            CASE WHEN lowest > 0 THEN 'above 0' ELSE 'from 0' END USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_amount(text, numeric, numeric) IS
    'Refuse an amount that is NULL, too large, too fine or not above 0 (or 0).';
