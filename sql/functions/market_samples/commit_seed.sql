CREATE OR REPLACE FUNCTION medusa_market.commit_seed(move_id bigint, contract text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    -- The random numbers of the server are those of its operating system.
    INSERT INTO medusa_market.sample_seed (move_id, commitment, first_period, root)
    SELECT commit_seed.move_id, medusa_market.hashed(r.root, 4096), coalesce((
        SELECT b.period FROM medusa_market.billing_position AS b
        WHERE b.contract = commit_seed.contract), 1), r.root
    FROM (SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
        || uuid_send(gen_random_uuid())) AS root) AS r
$$;
COMMENT ON FUNCTION medusa_market.commit_seed(bigint, text) IS
    'Draw the root of a move of this home, from which its samples follow, and what the provider is '
    'sent of it.';
