CREATE OR REPLACE FUNCTION medusa_market.awaits_release(contract text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM medusa_market.move AS m
        WHERE m.contract = awaits_release.contract AND NOT m.is_given AND m.state <> 'ended'
            AND m.from_us IS NULL)
$$;
COMMENT ON FUNCTION medusa_market.awaits_release(text) IS
    'Whether this home computes a fragment under a contract, and has not heard from when on it is '
    'paid for it.';
