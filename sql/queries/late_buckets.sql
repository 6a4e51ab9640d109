-- The late records of sources that wait, counted by bucket, and when the first of each arrived.
SELECT p.stream, l.bucket_us, count(*) AS records, medusa.to_ms(min(q.quarantined_at)) AS arrived_ms
FROM medusa.stream_producer AS p
JOIN medusa.late_record AS l ON l.line_id = p.line_id
JOIN medusa.quarantine AS q ON q.quarantine_id = l.quarantine_id
WHERE p.stream = ANY (CAST(:streams AS text[])) AND NOT EXISTS (
    SELECT FROM medusa.quarantine_retry AS r WHERE r.quarantine_id = l.quarantine_id)
GROUP BY p.stream, l.bucket_us
ORDER BY p.stream, l.bucket_us;
