-- A stream: what is declared and promised of it, and its lines in the order in which this home chooses
-- the one that it reads.
SELECT s.name AS stream, s.kind, s.width_us, s.columns, s.key_columns, m.bound_ms, m.during_failure,
    m.during_stabilization, m.failure_ms_max, m.retention_ms, m.verify_count, m.follows_revisions,
    p.line_id, p.participant, p.replica, p.last_version AS version, p.origin_us, p.boundary_us,
    p.end_us, p.trimmed_us, p.generation, h.participant AS home,
    (SELECT t.from_us FROM medusa.segment AS t
     WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
     ORDER BY t.to_us LIMIT 1) AS tentative_us,
    (SELECT t.to_us FROM medusa.segment AS t WHERE t.line_id = p.line_id AND t.end_version IS NULL
     ORDER BY t.to_us DESC LIMIT 1) AS live_to_us,
    (SELECT t.from_us FROM medusa.segment AS t WHERE t.line_id = p.line_id AND t.end_version IS NULL
     ORDER BY t.to_us LIMIT 1) AS live_from_us
FROM medusa.stream AS s
CROSS JOIN medusa.home AS h
LEFT JOIN medusa.stream_promise AS m ON m.stream = s.name
LEFT JOIN medusa.stream_producer AS p ON p.stream = s.name
WHERE s.name = :stream
ORDER BY (p.participant = h.participant AND p.replica = -1) DESC,
    (p.participant = h.participant) DESC, p.participant, p.replica;
