CREATE OR REPLACE FUNCTION medusa_market.may_move(terms medusa_market.contract_revision,
    fragment text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (terms).fragments IS NULL OR EXISTS (
        SELECT FROM unnest((terms).fragments) AS f WHERE medusa_market.is_fragment_of(fragment, f))
$$;
COMMENT ON FUNCTION medusa_market.may_move(medusa_market.contract_revision, text) IS
    'Whether a contract lets a fragment move, by either of its names: FRAGMENT also means '
    'NETWORK.FRAGMENT; the payer knows the network.';
