-- Live segments of a stream in event-time order. They do not overlap: those that end inside the
-- range, and at most one that ends behind it.
SELECT p.stream, p.participant, p.replica, s.line_id, s.from_us, s.to_us,
    s.stability::text AS stability, s.version, s.plan, s.age_ms,
    s.missing, s.bucket_us, s.bucket_rows, array_to_string(s.sum_a, ',') AS sum_a,
    array_to_string(s.sum_b, ',') AS sum_b, s.commit_id,
    CASE WHEN s.stability <> 'stable' THEN (
        SELECT max(l.drop_rate) FROM medusa.lineage AS l
        WHERE l.commit_id = s.commit_id AND l.output = p.stream
    ) END AS drop_rate,
    (SELECT json_agg(json_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
     FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
     JOIN medusa.file AS f ON f.file_id = u.file_id) AS files
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT * FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.end_version IS NULL
        AND t.to_us > CAST(:from_us AS bigint) AND t.to_us <= CAST(:to_us AS bigint)
    UNION ALL
    SELECT * FROM (
        SELECT * FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL
            AND t.to_us > greatest(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
        ORDER BY t.to_us LIMIT 1
    ) AS behind
    WHERE behind.from_us < CAST(:to_us AS bigint)
) AS s
WHERE p.stream = :stream AND (p.participant = :participant OR :participant IS NULL)
    AND (p.replica = :replica OR :replica IS NULL)
ORDER BY s.from_us, p.participant, p.replica;
