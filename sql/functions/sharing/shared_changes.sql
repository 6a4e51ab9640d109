CREATE OR REPLACE FUNCTION medusa.shared_changes(
    token_id bigint, stream text, after bigint, until bigint
) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(medusa.shared_segment(s) ORDER BY s.from_us), '[]')
    FROM medusa_api.shared_streams(shared_changes.token_id) AS g
    CROSS JOIN LATERAL medusa.shared_line(g.stream) AS p
    CROSS JOIN LATERAL (
        SELECT t.* FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.begin_version > shared_changes.after
            AND t.begin_version <= shared_changes.until
        UNION ALL
        SELECT t.* FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NOT NULL
            AND t.end_version > shared_changes.after AND t.end_version <= shared_changes.until
            AND t.begin_version <= shared_changes.after
    ) AS s
    WHERE g.stream = shared_changes.stream
$$;
COMMENT ON FUNCTION medusa.shared_changes(bigint, text, bigint, bigint) IS
    'For the exchange server: the segments of a shared stream that became live or were superseded '
    'after one version, until another.';
