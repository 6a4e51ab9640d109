-- For each of several parts, landed files with a record in it, in the order in which they landed, with
-- their digests there, and whether the source has promised that no later record is before their end.
SELECT w.part, f.path, f.size_bytes, f.sha256, f.rows, n.bucket_us, n.bucket_rows, n.sum_a, n.sum_b,
    n.promised_us IS NOT NULL AND NOT EXISTS (
        SELECT FROM medusa.landed_bucket AS o
        WHERE o.line_id = n.line_id AND o.bucket_us > n.promised_us - n.width_us
            AND o.batch_no = n.batch_no) AS is_promised
FROM unnest(CAST(:parts AS integer[]), CAST(:streams AS text[]), CAST(:from_us AS bigint[]),
    CAST(:to_us AS bigint[])) AS w (part, stream, from_us, to_us)
CROSS JOIN LATERAL (
    SELECT l.batch_no, p.line_id, p.promised_us, s.width_us,
        array_agg(l.bucket_us ORDER BY l.bucket_us) AS bucket_us,
        array_agg(l.records ORDER BY l.bucket_us) AS bucket_rows,
        string_agg(l.sum_a::text, ',' ORDER BY l.bucket_us) AS sum_a,
        string_agg(l.sum_b::text, ',' ORDER BY l.bucket_us) AS sum_b
    FROM medusa.stream_producer AS p
    JOIN medusa.stream AS s ON s.name = p.stream
    JOIN medusa.landed_bucket AS l ON l.line_id = p.line_id
    WHERE p.stream = w.stream AND l.bucket_us > w.from_us - s.width_us AND l.bucket_us < w.to_us
    GROUP BY l.batch_no, p.line_id, p.promised_us, s.width_us
) AS n
JOIN medusa.landed_batch AS b ON b.batch_no = n.batch_no
JOIN medusa.file AS f ON f.file_id = b.file_id
ORDER BY w.part, b.batch_no;
