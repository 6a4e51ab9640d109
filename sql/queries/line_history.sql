-- Every row that a line ever had over a range, when it was written, and when the first of the inputs
-- that it was computed from had arrived as far as it reaches. An input that it lacks does not count:
-- of one that a window reaches back over, what was there came long before the rest was missed.
SELECT s.from_us, s.to_us, s.stability::text AS stability, s.begin_version, s.end_version,
    s.age_ms, s.missing, s.row_count AS rows, medusa.to_ms(c.committed_at) AS committed_at_ms,
    (SELECT min(i.at_ms) FROM (
        SELECT max(medusa.to_ms(w.committed_at)) AS at_ms
        FROM medusa.lineage AS l
        JOIN medusa.stream_producer AS o
            ON (o.stream, o.participant, o.replica) = (l.input, l.participant, l.replica)
        JOIN medusa.segment AS t
            ON int8range(t.line_id, t.line_id, '[]') && int8range(o.line_id, o.line_id, '[]')
            AND int8range(t.from_us, t.to_us) && int8range(l.from_us, l.to_us)
            AND t.version = l.read_version
        JOIN medusa.commit AS w ON w.commit_id = t.commit_id
        WHERE l.commit_id = s.commit_id AND l.output = p.stream AND l.input <> ALL (s.missing)
        GROUP BY l.input) AS i) AS inputs_at_ms
FROM medusa.stream_producer AS p
JOIN medusa.segment AS s
    ON int8range(s.line_id, s.line_id, '[]') && int8range(p.line_id, p.line_id, '[]')
    AND int8range(s.from_us, s.to_us)
        && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
JOIN medusa.commit AS c ON c.commit_id = s.commit_id
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
ORDER BY s.begin_version, s.from_us;
