-- The live final segments of some lines that read what was revised since, oldest first, with the ranges
-- of each input that they read and that differ now. Which windows of a segment need these is known to
-- its fragment alone, so that there is no limit here: most may need none. `pairs` tells which line is
-- computed from which revised one, by how much what a row needs of it begins before the row, at most,
-- and ends before it, at least, and through which generation nothing is owed any more.
SELECT s.segment_id, s.line_id, s.from_us, s.to_us, s.plan, o.trimmed_us, found.changed
FROM (
    SELECT t.segment_id, json_agg(DISTINCT jsonb_build_array(i.stream, lower(c.part), upper(c.part)))
        AS changed
    FROM ROWS FROM (jsonb_to_recordset(CAST(:pairs AS jsonb)) AS
        (output integer, input integer, back_us bigint, delay_us bigint, settled integer)) AS pair
    JOIN medusa.stream_producer AS o ON o.line_id = pair.output
    JOIN medusa.stream_producer AS i ON i.line_id = pair.input
    JOIN medusa.recall AS r ON r.line_id = i.line_id AND r.generation > pair.settled
    CROSS JOIN LATERAL unnest(r.changed) AS c (part)
    CROSS JOIN LATERAL (
        SELECT u.* FROM medusa.segment AS u
        WHERE u.line_id = o.line_id AND u.end_version IS NULL AND u.stability = 'stable'
            AND u.to_us > lower(c.part) + pair.delay_us
            AND u.from_us < upper(c.part) + pair.back_us
            -- Live rows do not overlap: none behind the one that reaches the end begins before it. The
            -- index has ends only.
            AND u.to_us <= coalesce((
                SELECT v.to_us FROM medusa.segment AS v
                WHERE v.line_id = o.line_id AND v.end_version IS NULL
                    AND v.to_us >= upper(c.part) + pair.back_us
                ORDER BY v.to_us LIMIT 1), 9223372036854775807)
            AND u.to_us > coalesce(o.trimmed_us, -9223372036854775808)
    ) AS t
    JOIN medusa.lineage AS l ON l.commit_id = t.commit_id AND l.output = o.stream
        AND (l.input, l.participant, l.replica) = (i.stream, i.participant, i.replica)
        AND l.read_version < r.version AND int8range(l.from_us, l.to_us) && c.part
    GROUP BY t.segment_id
) AS found
JOIN medusa.segment AS s ON s.segment_id = found.segment_id
JOIN medusa.stream_producer AS o ON o.line_id = s.line_id
ORDER BY s.from_us, s.line_id;
