-- Every row that a line ever had over a range, when it was written, and when the first of the inputs
-- that it was computed from had arrived as far as it reaches. An input that it lacks does not count:
-- of one that a window reaches back over, what was there came long before the rest was missed. Live
-- rows and replaced ones are found by an index each.
SELECT s.from_us, s.to_us, s.stability::text AS stability, s.begin_version, s.end_version,
    s.age_ms, s.missing, s.row_count AS rows, medusa.to_ms(c.committed_at) AS committed_at_ms,
    (SELECT min(i.at_ms) FROM (
        SELECT max(medusa.to_ms(w.committed_at)) AS at_ms
        FROM medusa.lineage AS l
        JOIN medusa.stream_producer AS o
            ON (o.stream, o.participant, o.replica) = (l.input, l.participant, l.replica)
        CROSS JOIN LATERAL (
            SELECT n.commit_id FROM medusa.segment AS n
            WHERE n.end_version IS NULL AND n.version = l.read_version
                AND int8range(n.line_id, n.line_id, '[]')
                    && int8range(o.line_id, o.line_id, '[]')
                AND int8range(n.from_us, n.to_us) && int8range(l.from_us, l.to_us)
            UNION ALL
            SELECT r.commit_id FROM medusa.segment AS r
            WHERE r.end_version IS NOT NULL AND r.version = l.read_version
                AND int8range(r.line_id, r.line_id, '[]')
                    && int8range(o.line_id, o.line_id, '[]')
                AND int8range(r.from_us, r.to_us) && int8range(l.from_us, l.to_us)
        ) AS t
        JOIN medusa.commit AS w ON w.commit_id = t.commit_id
        WHERE l.commit_id = s.commit_id AND l.output = p.stream AND l.input <> ALL (s.missing)
        GROUP BY l.input) AS i) AS inputs_at_ms
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT * FROM medusa.segment AS n
    WHERE n.end_version IS NULL
        AND int8range(n.line_id, n.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
        AND int8range(n.from_us, n.to_us)
            && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
    UNION ALL
    SELECT * FROM medusa.segment AS r
    WHERE r.end_version IS NOT NULL
        AND int8range(r.line_id, r.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
        AND int8range(r.from_us, r.to_us)
            && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
) AS s
JOIN medusa.commit AS c ON c.commit_id = s.commit_id
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
ORDER BY s.begin_version, s.from_us;
