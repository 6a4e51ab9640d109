-- The oldest live tentative segments of some lines that may be owed a correction. Which input ranges
-- a segment needs is known to its fragment alone, but its first instant is always among them: a row
-- whose missing input has not come as far, or whose input is still tentative there, is left out, so
-- that an input that stays away does not keep younger rows out. `reach` tells how far
-- each input stream reaches, `inputs` which lines each line is computed from.
SELECT s.line_id, s.from_us, s.to_us, s.stability::text AS stability, s.version, s.plan, s.age_ms,
    s.missing, s.bucket_us, s.bucket_rows, array_to_string(s.sum_a, ',') AS sum_a,
    array_to_string(s.sum_b, ',') AS sum_b, s.commit_id,
    (SELECT medusa.to_ms(c.committed_at) FROM medusa.commit AS c
     WHERE c.commit_id = s.commit_id) AS arrived_ms,
    (SELECT json_agg(json_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
     FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
     JOIN medusa.file AS f ON f.file_id = u.file_id) AS files
FROM unnest(CAST(:line_ids AS integer[])) AS requested (line_id)
CROSS JOIN LATERAL (
    SELECT * FROM medusa.segment AS t
    WHERE t.line_id = requested.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        AND NOT EXISTS (
            SELECT FROM unnest(t.missing) AS m
            WHERE CAST(CAST(:reach AS jsonb)->>m AS bigint) <= t.from_us)
        AND NOT EXISTS (
            SELECT FROM jsonb_array_elements_text(
                CAST(:inputs AS jsonb)->CAST(requested.line_id AS text)) AS i
            CROSS JOIN LATERAL (
                SELECT u.from_us FROM medusa.segment AS u
                WHERE u.line_id = CAST(i AS integer) AND u.end_version IS NULL
                    AND u.stability = 'tentative' AND u.to_us > t.from_us
                ORDER BY u.to_us LIMIT 1
            ) AS at_input
            WHERE at_input.from_us <= t.from_us)
    ORDER BY t.to_us LIMIT :segments_max
) AS s
ORDER BY s.line_id, s.to_us;
