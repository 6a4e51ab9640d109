-- Of several streams, starts of the first and of the last bucket that has landed records.
SELECT p.stream, min(b.first_us) AS first_us, max(b.last_us) AS last_us
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT min(l.bucket_us) AS first_us, max(l.bucket_us) AS last_us
    FROM medusa.landed_bucket AS l WHERE l.line_id = p.line_id
) AS b
WHERE p.stream = ANY (CAST(:streams AS text[])) AND b.first_us IS NOT NULL
GROUP BY p.stream;
