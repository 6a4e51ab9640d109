-- Every (stream, producer) by name, with the count of its live segments and rows, where the first
-- tentative one begins and the last one that was superseded ended.
SELECT s.name, s.kind, s.width_us, s.columns, s.key_columns, p.participant, p.replica,
    p.last_version, p.origin_us, p.boundary_us, p.promised_us, p.end_us,
    live.segments, live.rows, tentative.from_us AS tentative_us, p.trimmed_us,
    corrected.to_us AS corrected_us, p.generation
FROM medusa.stream AS s
JOIN medusa.stream_producer AS p ON p.stream = s.name
CROSS JOIN LATERAL (
    SELECT count(*) AS segments, coalesce(sum(t.row_count), 0)::bigint AS rows
    FROM medusa.segment AS t WHERE t.line_id = p.line_id AND t.end_version IS NULL
) AS live
LEFT JOIN LATERAL (
    SELECT t.from_us FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
    ORDER BY t.to_us LIMIT 1
) AS tentative ON true
LEFT JOIN LATERAL (
    SELECT t.to_us FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.end_version IS NOT NULL
    ORDER BY t.end_version DESC, t.to_us DESC LIMIT 1
) AS corrected ON true
ORDER BY s.name, p.participant, p.replica;
