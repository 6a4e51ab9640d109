-- Every (stream, producer) by name, and where its first tentative segment begins: looked up, not
-- counted.
SELECT s.name, s.kind, s.width_us, s.columns, s.key_columns, p.participant, p.replica,
    p.last_version, p.origin_us, p.boundary_us, p.promised_us, p.end_us,
    (SELECT t.from_us FROM medusa.segment AS t
     WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
     ORDER BY t.to_us LIMIT 1) AS tentative_us,
    p.trimmed_us
FROM medusa.stream AS s
JOIN medusa.stream_producer AS p ON p.stream = s.name
ORDER BY s.name, p.participant, p.replica;
