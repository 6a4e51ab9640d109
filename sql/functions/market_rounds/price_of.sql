CREATE OR REPLACE FUNCTION medusa_market.price_of(terms medusa_market.contract_revision,
    level integer) RETURNS numeric
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN terms.kind = 'movement'
        AND level BETWEEN 0 AND (terms.price_high - terms.price_low) / terms.price_step
        THEN terms.price_low + level * terms.price_step END
$$;
COMMENT ON FUNCTION medusa_market.price_of(medusa_market.contract_revision, integer) IS
    'The price of a level; NULL if the contract has no such level.';
