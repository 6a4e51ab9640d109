-- Landed files of this home with a record in a range of a stream, in the order in which they landed: so
-- many of them, and how many there are.
SELECT json_build_array(f.path, f.size_bytes, f.sha256, f.rows) AS file, count(*) OVER () AS in_all
FROM medusa.landed_batch AS b JOIN medusa.file AS f ON f.file_id = b.file_id
WHERE b.batch_no IN (
    SELECT l.batch_no
    FROM medusa.landed_bucket AS l
    JOIN medusa.stream_producer AS p ON p.line_id = l.line_id
    JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.stream = :stream AND l.bucket_us > :from_us - s.width_us AND l.bucket_us < :to_us)
ORDER BY b.batch_no LIMIT :most;
