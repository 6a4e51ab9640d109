-- Landed files with a record in a range, in the order in which they landed.
SELECT f.path, f.size_bytes, f.sha256, f.rows
FROM medusa.landed_batch AS b JOIN medusa.file AS f ON f.file_id = b.file_id
WHERE b.batch_no IN (
    SELECT l.batch_no
    FROM medusa.landed_bucket AS l
    JOIN medusa.stream_producer AS p ON p.line_id = l.line_id
    JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.stream = :stream AND l.bucket_us > :from_us - s.width_us AND l.bucket_us < :to_us)
ORDER BY b.batch_no;
