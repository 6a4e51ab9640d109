CREATE OR REPLACE FUNCTION medusa_market.shared_names(token_id bigint) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT s.stream FROM medusa_api.shared_streams(shared_names.token_id) AS s
        ORDER BY s.stream COLLATE "C")
$$;
COMMENT ON FUNCTION medusa_market.shared_names(bigint) IS
    'For the exchange server: the names of the streams that the holder of a token may read.';
