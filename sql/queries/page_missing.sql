-- The inputs that live tentative rows of a line lack in a range: of each, how much event time lacks it,
-- from when to when, and how far that input is here.
SELECT m.input, CAST(sum(t.to_us - t.from_us) AS bigint) AS lacks_us, min(t.from_us) AS from_us,
    max(t.to_us) AS to_us,
    (SELECT max(p.boundary_us) FROM medusa.stream_producer AS p WHERE p.stream = m.input)
        AS boundary_us,
    EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = m.input) AS is_known
FROM medusa.segment AS t
CROSS JOIN LATERAL unnest(CASE t.missing WHEN '{}' THEN ARRAY[NULL] ELSE t.missing END) AS m (input)
WHERE t.line_id = :line_id AND t.end_version IS NULL AND t.stability = 'tentative'
    AND t.to_us > CAST(:from_us AS bigint) AND t.from_us < CAST(:to_us AS bigint)
GROUP BY m.input ORDER BY sum(t.to_us - t.from_us) DESC, m.input LIMIT 50;
