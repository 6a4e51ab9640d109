CREATE OR REPLACE FUNCTION medusa_market.is_shared(token_id bigint, stream text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM medusa_api.shared_streams(is_shared.token_id) AS s
        WHERE s.stream = is_shared.stream)
$$;
COMMENT ON FUNCTION medusa_market.is_shared(bigint, text) IS
    'For the exchange server: whether the holder of a token may read a stream now.';
