-- What was dropped of streams and is to be corrected, by line: the live tentative rows whose lineage
-- has a drop rate. Whole buckets have the rate 1.
SELECT p.stream, p.participant, p.replica, min(d.from_us) AS from_us, max(d.to_us) AS to_us,
    sum((d.to_us - d.from_us) / t.width_us)::bigint AS buckets,
    sum((d.to_us - d.from_us) / t.width_us * d.drop_rate)::double precision AS dropped
FROM medusa.stream_producer AS p JOIN medusa.stream AS t ON t.name = p.stream
CROSS JOIN LATERAL (
    SELECT s.from_us, s.to_us, max(l.drop_rate) AS drop_rate
    FROM medusa.segment AS s
    JOIN medusa.lineage AS l ON l.commit_id = s.commit_id AND l.output = p.stream
    WHERE s.line_id = p.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
    GROUP BY s.segment_id
    HAVING max(l.drop_rate) > 0
) AS d
GROUP BY p.stream, p.participant, p.replica
ORDER BY p.stream, p.participant, p.replica;
