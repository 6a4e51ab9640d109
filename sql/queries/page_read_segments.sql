-- The rows of a line at one version that overlap a range, the live and the replaced ones (each by its
-- index), or only the live ones, with the hull of the commit that wrote them; so many of them.
SELECT s.from_us, s.to_us, s.stability::text AS stability, s.version, s.commit_id, s.plan,
    s.row_count AS rows, s.end_version IS NULL AS is_live, c.fragment, c.cause::text AS cause,
    c.from_us AS hull_from_us, c.to_us AS hull_to_us,
    medusa.to_ms(c.committed_at) AS committed_at_ms,
    (SELECT json_agg(json_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
     FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
     JOIN medusa.file AS f ON f.file_id = u.file_id) AS files
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT * FROM medusa.segment AS n
    WHERE n.end_version IS NULL
        AND (CAST(:version AS bigint) IS NULL OR n.version = CAST(:version AS bigint))
        AND int8range(n.line_id, n.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
        AND int8range(n.from_us, n.to_us)
            && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
    UNION ALL
    SELECT * FROM medusa.segment AS r
    WHERE r.end_version IS NOT NULL AND r.version = CAST(:version AS bigint)
        AND int8range(r.line_id, r.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
        AND int8range(r.from_us, r.to_us)
            && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
) AS s
JOIN medusa.commit AS c ON c.commit_id = s.commit_id
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
ORDER BY s.end_version IS NULL DESC, s.from_us LIMIT :most;
