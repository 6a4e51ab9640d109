-- How a stream stands in the line that this home reads of it (what it has chosen among several
-- producers, else its own, else the first by name), and which incarnation of the home this is.
-- Nothing here grows with the stream's history.
SELECT h.incarnation::text AS incarnation, s.width_us, s.columns, p.participant, p.replica,
    p.last_version, p.origin_us, p.boundary_us, p.end_us, p.trimmed_us, p.generation,
    (SELECT json_agg(json_build_array(r.generation, r.from_us)) FROM medusa.recall AS r
     WHERE r.line_id = p.line_id) AS recalls,
    (SELECT json_agg(json_build_array(r.version, r.generation)) FROM medusa.recall AS r
     WHERE r.line_id = p.line_id AND r.ranges IS NOT NULL) AS revisions,
    tentative.from_us AS tentative_us
FROM medusa.home AS h
CROSS JOIN medusa.stream AS s
LEFT JOIN medusa.stream_producer AS p ON p.stream = s.name
LEFT JOIN LATERAL (
    SELECT t.from_us FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
    ORDER BY t.to_us LIMIT 1
) AS tentative ON true
WHERE s.name = :stream
ORDER BY (p.participant = h.participant AND p.replica = -1) DESC NULLS LAST,
    (p.participant = h.participant) DESC NULLS LAST, p.participant, p.replica
LIMIT 1;
