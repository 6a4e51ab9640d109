-- Every (stream, producer) by name, or those of one stream, where its first tentative segment begins
-- and the last one that was superseded ended: looked up, not counted.
SELECT s.name, s.kind, s.width_us, s.columns, s.key_columns, p.participant, p.replica,
    p.last_version, p.origin_us, p.boundary_us, p.promised_us, p.end_us,
    (SELECT t.from_us FROM medusa.segment AS t
     WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
     ORDER BY t.to_us LIMIT 1) AS tentative_us,
    p.trimmed_us, p.generation, corrected.to_us AS corrected_us
FROM medusa.stream AS s
JOIN medusa.stream_producer AS p ON p.stream = s.name
LEFT JOIN LATERAL (
    SELECT t.to_us FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.end_version IS NOT NULL
    ORDER BY t.end_version DESC, t.to_us DESC LIMIT 1
) AS corrected ON true
WHERE CAST(:stream AS text) IS NULL OR s.name = :stream
ORDER BY s.name, p.participant, p.replica;
