-- The live final segments of some lines that read what was revised since, oldest first, with the ranges
-- of each input that they read and that differ now. Which windows of a segment need these is known to
-- its fragment alone, so that there is no limit here: most may need none. `pairs` tells which line is
-- computed from which revised one, by how much what a row needs of it begins before the row, at most,
-- and ends before it, at least, and through which generation nothing is owed any more.
--
-- The order of the joins is fixed, from what differs to the segments around it to what they read: the
-- tables grow between two of their statistics, and a plan that begins at `lineage` reads all of it
-- for each revision.
WITH differing AS MATERIALIZED (
    SELECT o.line_id, o.stream AS output, o.trimmed_us, i.stream, i.participant, i.replica, r.version, c.part,
        greatest(lower(c.part) + pair.delay_us, o.trimmed_us) AS from_us, upper(c.part) + pair.back_us AS to_us
    FROM ROWS FROM (jsonb_to_recordset(CAST(:pairs AS jsonb)) AS
        (output integer, input integer, back_us bigint, delay_us bigint, settled integer)) AS pair
    JOIN medusa.stream_producer AS o ON o.line_id = pair.output
    JOIN medusa.stream_producer AS i ON i.line_id = pair.input
    JOIN medusa.recall AS r ON r.line_id = i.line_id AND r.generation > pair.settled
    CROSS JOIN LATERAL unnest(r.changed) AS c (part)
    WHERE greatest(lower(c.part) + pair.delay_us, o.trimmed_us) < upper(c.part) + pair.back_us
)
SELECT s.segment_id, s.line_id, s.from_us, s.to_us, s.plan, d.trimmed_us,
    json_agg(DISTINCT jsonb_build_array(d.stream, lower(d.part), upper(d.part))) AS changed
FROM differing AS d
CROSS JOIN LATERAL (
    -- As the index has it that keeps live rows apart: without statistics another one may be read whole.
    SELECT u.* FROM medusa.segment AS u
    WHERE int8range(u.line_id, u.line_id, '[]') && int8range(d.line_id, d.line_id, '[]')
        AND int8range(u.from_us, u.to_us) && int8range(d.from_us, d.to_us)
        AND u.end_version IS NULL AND u.stability = 'stable'
    OFFSET 0
) AS s
WHERE EXISTS (
    SELECT FROM medusa.lineage AS l
    WHERE l.commit_id = s.commit_id AND l.output = d.output
        AND (l.input, l.participant, l.replica) = (d.stream, d.participant, d.replica)
        AND l.read_version < d.version AND int8range(l.from_us, l.to_us) && d.part
    OFFSET 0
)
GROUP BY s.segment_id, s.line_id, s.from_us, s.to_us, s.plan, d.trimmed_us
ORDER BY s.from_us, s.line_id;
