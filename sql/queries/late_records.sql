-- The late records of some buckets of a source that wait, in the order in which they arrived.
SELECT l.quarantine_id AS number, l.stime_us, l.row_bytes AS row
FROM medusa.stream_producer AS p
JOIN medusa.late_record AS l ON l.line_id = p.line_id
WHERE p.stream = :stream AND l.bucket_us = ANY (CAST(:buckets AS bigint[])) AND NOT EXISTS (
    SELECT FROM medusa.quarantine_retry AS r WHERE r.quarantine_id = l.quarantine_id)
ORDER BY l.quarantine_id;
