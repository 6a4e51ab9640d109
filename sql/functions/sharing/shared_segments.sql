CREATE OR REPLACE FUNCTION medusa.shared_segments(
    token_id bigint, stream text, as_of bigint, from_us bigint
) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(medusa.shared_segment(s) ORDER BY s.from_us), '[]')
    FROM medusa_api.shared_streams(shared_segments.token_id) AS g
    CROSS JOIN LATERAL medusa.shared_line(g.stream) AS p
    CROSS JOIN LATERAL (
        SELECT t.* FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL
            AND t.to_us > shared_segments.from_us AND t.begin_version <= shared_segments.as_of
        UNION ALL
        SELECT t.* FROM medusa.segment AS t
        WHERE t.end_version IS NOT NULL
            AND int8range(t.line_id, t.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
            AND int8range(t.from_us, t.to_us) && int8range(shared_segments.from_us, NULL)
            AND t.begin_version <= shared_segments.as_of AND shared_segments.as_of < t.end_version
    ) AS s
    WHERE g.stream = shared_segments.stream
$$;
COMMENT ON FUNCTION medusa.shared_segments(bigint, text, bigint, bigint) IS
    'For the exchange server: the segments of a stream that were live at a version and end after an '
    'event time, in event-time order; none for a stream that is not shared.';
