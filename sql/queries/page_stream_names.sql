-- Streams of this home whose names have some characters in them, behind one name, in order, so many of
-- them; each with how many there are in all, and with the line that this home reads of it: what it has
-- chosen among several producers, else what it computes itself, else the first by name.
SELECT s.name AS stream, s.kind, s.width_us, s.in_all, l.participant, l.replica, l.boundary_us,
    l.end_us, l.origin_us, l.has_lines,
    (SELECT t.from_us FROM medusa.segment AS t
     WHERE t.line_id = l.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
     ORDER BY t.to_us LIMIT 1) AS tentative_us
FROM (
    SELECT m.name, m.kind, m.width_us, m.in_all
    FROM (
        SELECT n.name, n.kind, n.width_us, count(*) OVER () AS in_all FROM medusa.stream AS n
        WHERE position(CAST(:contains AS text) IN n.name) > 0
    ) AS m
    WHERE m.name > CAST(:after AS text) ORDER BY m.name LIMIT :limit
) AS s
CROSS JOIN medusa.home AS h
LEFT JOIN LATERAL (
    SELECT p.line_id, p.participant, p.replica, p.boundary_us, p.end_us, p.origin_us,
        count(*) OVER () AS has_lines
    FROM medusa.stream_producer AS p WHERE p.stream = s.name
    ORDER BY (p.participant = h.participant AND p.replica = -1) DESC,
        (p.participant = h.participant) DESC, p.participant, p.replica
    LIMIT 1
) AS l ON true
ORDER BY s.name;
