CREATE OR REPLACE FUNCTION medusa_market.awaits_release(contract text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM medusa_market.move AS m
        WHERE m.contract = awaits_release.contract AND NOT m.is_given
            AND m.from_us IS NULL AND m.price IS NOT NULL AND NOT m.payer_has_ended)
$$;
COMMENT ON FUNCTION medusa_market.awaits_release(text) IS
    'Whether a fragment was moved to this home under a contract, and no message of the payer has '
    'said yet from which bucket on this home is paid, or that the move has ended.';
