-- For each of several parts, landed files with a record in it, in the order in which they landed.
SELECT w.part, f.path, f.size_bytes, f.sha256, f.rows
FROM unnest(CAST(:parts AS integer[]), CAST(:streams AS text[]), CAST(:from_us AS bigint[]),
    CAST(:to_us AS bigint[])) AS w (part, stream, from_us, to_us)
CROSS JOIN LATERAL (
    SELECT DISTINCT l.batch_no
    FROM medusa.stream_producer AS p
    JOIN medusa.stream AS s ON s.name = p.stream
    JOIN medusa.landed_bucket AS l ON l.line_id = p.line_id
    WHERE p.stream = w.stream AND l.bucket_us > w.from_us - s.width_us AND l.bucket_us < w.to_us
) AS n
JOIN medusa.landed_batch AS b ON b.batch_no = n.batch_no
JOIN medusa.file AS f ON f.file_id = b.file_id
ORDER BY w.part, b.batch_no;
