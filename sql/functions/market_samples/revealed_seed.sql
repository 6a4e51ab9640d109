CREATE OR REPLACE FUNCTION medusa_market.revealed_seed(move_id bigint, period bigint) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.hashed(s.root, 4095 - (revealed_seed.period - s.first_period))
    FROM medusa_market.sample_seed AS s
    WHERE s.move_id = revealed_seed.move_id
        AND revealed_seed.period - s.first_period BETWEEN 0 AND 4095
$$;
COMMENT ON FUNCTION medusa_market.revealed_seed(bigint, bigint) IS
    'The seed of a settlement period of a move of this home; NULL: there is none.';
