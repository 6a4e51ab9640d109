CREATE OR REPLACE FUNCTION medusa.shared_table(token_id bigint, stream text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('line_id', p.line_id, 'columns', s.columns, 'key', s.key_columns,
        'version', p.last_version, 'origin_us', p.origin_us, 'trimmed_us', p.trimmed_us)
    FROM medusa_api.shared_streams(shared_table.token_id) AS g
    JOIN medusa.stream AS s ON s.name = g.stream
    CROSS JOIN LATERAL medusa.shared_line(s.name) AS p
    WHERE g.stream = shared_table.stream
$$;
COMMENT ON FUNCTION medusa.shared_table(bigint, text) IS
    'For the exchange server: a stream as a table, at its newest version; NULL: there is none for the '
    'holder of this token.';
