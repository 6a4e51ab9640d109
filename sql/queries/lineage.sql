-- What the content of a segment was computed from: found by its line and version. Of a version no
-- two live rows overlap: those that end inside the range, and at most one that ends behind it.
SELECT l.commit_id, l.output, l.input, l.participant, l.replica, l.from_us, l.to_us,
    l.read_version, l.drop_rate
FROM medusa.lineage AS l
WHERE l.output = :stream AND l.commit_id = (
    SELECT s.commit_id
    FROM medusa.stream_producer AS p
    CROSS JOIN LATERAL (
        SELECT t.commit_id, t.version FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL
            AND t.to_us > CAST(:from_us AS bigint) AND t.to_us <= CAST(:to_us AS bigint)
        UNION ALL
        SELECT behind.commit_id, behind.version FROM (
            SELECT * FROM medusa.segment AS t
            WHERE t.line_id = p.line_id AND t.end_version IS NULL
                AND t.to_us > CAST(:to_us AS bigint)
            ORDER BY t.to_us LIMIT 1
        ) AS behind
        WHERE behind.from_us < CAST(:to_us AS bigint)
        UNION ALL
        SELECT t.commit_id, t.version FROM medusa.segment AS t
        WHERE t.end_version IS NOT NULL
            AND int8range(t.line_id, t.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
            AND int8range(t.from_us, t.to_us)
                && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
    ) AS s
    WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
        AND s.version = :version
    LIMIT 1)
ORDER BY l.position;
