-- When the last news of each partner came, by this home's clock.
SELECT p.participant, medusa.to_ms(max(v.made_at)) AS came_at_ms
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT max(l.made_at) AS made_at FROM medusa.line_version AS l WHERE l.line_id = p.line_id
) AS v
JOIN medusa.home AS h ON h.participant <> p.participant
WHERE v.made_at IS NOT NULL
GROUP BY p.participant;
