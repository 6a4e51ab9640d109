CREATE OR REPLACE FUNCTION medusa_market.is_disputed(contract text, period bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(bool_and(a.outcome = 'disputed'), false)
    FROM medusa_market.bill_answer AS a
    WHERE (a.contract, a.period) = (is_disputed.contract, is_disputed.period)
$$;
COMMENT ON FUNCTION medusa_market.is_disputed(text, bigint) IS
    'Whether there is a dispute about the statement of a period that has not ended.';
