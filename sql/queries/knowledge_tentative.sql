-- The oldest live tentative segments of some lines: what may be owed a correction.
-- Limit: the oldest segments_max of each line, whether or not their inputs are final by now. If so
-- many wait (their input is still cut off) while younger ones could be corrected, the younger ones
-- wait with them, until one of the older is final. Which input ranges a segment needs is known to
-- its fragment alone, not to its lineage, which names what was there: no filter here could tell.
SELECT s.line_id, s.from_us, s.to_us, s.stability::text AS stability, s.version, s.plan, s.age_ms,
    s.missing, s.bucket_us, s.bucket_rows, array_to_string(s.sum_a, ',') AS sum_a,
    array_to_string(s.sum_b, ',') AS sum_b, s.commit_id,
    (SELECT json_agg(json_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
     FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
     JOIN medusa.file AS f ON f.file_id = u.file_id) AS files
FROM unnest(CAST(:line_ids AS integer[])) AS wanted (line_id)
CROSS JOIN LATERAL (
    SELECT * FROM medusa.segment AS t
    WHERE t.line_id = wanted.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
    ORDER BY t.to_us LIMIT :segments_max
) AS s
ORDER BY s.line_id, s.to_us;
