-- Every line of this home: how far it is final, and where its first tentative row begins; looked up.
SELECT p.stream, s.kind, p.participant, p.replica, p.origin_us, p.boundary_us, p.end_us,
    (SELECT t.from_us FROM medusa.segment AS t
     WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
     ORDER BY t.to_us LIMIT 1) AS tentative_us
FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
WHERE p.replica >= 0
ORDER BY p.stream, p.participant, p.replica;
