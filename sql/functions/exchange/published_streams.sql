CREATE OR REPLACE FUNCTION medusa.published_streams(partner text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'kind', s.kind, 'width_us',
        s.width_us, 'columns', s.columns, 'key', s.key_columns, 'replicas', (
            SELECT jsonb_agg(p.replica ORDER BY p.replica) FROM medusa.stream_producer AS p
            JOIN medusa.home AS h ON h.participant = p.participant
            WHERE p.stream = s.name AND p.replica >= 0),
        'lineage', medusa.lineage_edges(s.name)) ORDER BY s.name), '[]')
    FROM medusa_api.granted_streams(published_streams.partner) AS g
    JOIN medusa.stream AS s ON s.name = g.stream
    WHERE EXISTS (
        SELECT FROM medusa.stream_producer AS p
        JOIN medusa.home AS h ON h.participant = p.participant
        WHERE p.stream = s.name AND p.replica >= 0)
$$;
COMMENT ON FUNCTION medusa.published_streams(text) IS
    'For the exchange server: the streams that a partner may read and this home computes.';
