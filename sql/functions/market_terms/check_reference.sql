CREATE OR REPLACE FUNCTION medusa_market.check_reference(contract text, reference text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    strange text;
BEGIN
    IF cardinality(check_reference.reference) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'the reference of contract % has % numbers: write 1 to 1,000, or NULL for '
            'load that is not billed', check_reference.contract,
            cardinality(check_reference.reference) USING ERRCODE = 'MD001';
    END IF;
    SELECT coalesce(r, 'NULL') INTO strange FROM unnest(check_reference.reference) AS r
    WHERE (r ~ ('^[a-z][a-z0-9_]{0,62}([.][a-z][a-z0-9_]{0,62})?/[a-z][a-z0-9_]{0,62}='
        '(0|[1-9][0-9]{0,5})([.][0-9]{0,2}[1-9])?$') AND r !~ '=0$') IS NOT TRUE LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the reference % of contract % is not valid: write '
            'FRAGMENT/STREAM=MICROSECONDS, such as main/connections=0.8',
            quote_literal(left(strange, 80)), check_reference.contract USING ERRCODE = 'MD001';
    END IF;
    SELECT split_part(r, '=', 1) INTO strange FROM unnest(check_reference.reference) AS r
    GROUP BY 1 HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the reference of contract % has two numbers for %: keep one',
            check_reference.contract, strange USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_reference(text, text[]) IS
    'Refuse a reference that load cannot be billed by, with a sentence; NULL is none.';
