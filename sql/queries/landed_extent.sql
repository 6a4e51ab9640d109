-- Starts of the first and of the last bucket of a stream that has landed records.
SELECT min(b.first_us) AS first_us, max(b.last_us) AS last_us
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT min(l.bucket_us) AS first_us, max(l.bucket_us) AS last_us
    FROM medusa.landed_bucket AS l WHERE l.line_id = p.line_id
) AS b
WHERE p.stream = :stream;
