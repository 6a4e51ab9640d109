CREATE OR REPLACE FUNCTION medusa.published_streams(partner text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH published AS MATERIALIZED (
        SELECT s.name, s.kind, s.width_us, s.columns, s.key_columns,
            jsonb_agg(p.replica ORDER BY p.replica) AS replicas
        FROM medusa_api.granted_streams(published_streams.partner) AS g
        JOIN medusa.stream AS s ON s.name = g.stream
        JOIN medusa.stream_producer AS p ON p.stream = s.name AND p.replica >= 0
        JOIN medusa.home AS h ON h.participant = p.participant
        GROUP BY s.name
    )
    SELECT coalesce(jsonb_agg(jsonb_build_object('name', p.name, 'kind', p.kind, 'width_us',
        p.width_us, 'columns', p.columns, 'key', p.key_columns, 'replicas', p.replicas, 'lineage',
        coalesce(l.lineage, '[]')) ORDER BY p.name), '[]')
    FROM published AS p
    LEFT JOIN medusa.lineage_of(ARRAY(SELECT o.name FROM published AS o)) AS l ON l.stream = p.name
$$;
COMMENT ON FUNCTION medusa.published_streams(text) IS
    'For the exchange server: the streams that a partner may read and this home computes, each with '
    'its lineage.';
