-- Records in quarantine, of all streams, or that a stream lacks, behind a number and, if given, of these
-- numbers, oldest first, and the batch they landed with repaired, or that a revision admitted them.
SELECT q.quarantine_id, q.stream, q.origin, q.position, q.field, q.reason, q.content, q.size_bytes,
    q.sha256, q.outputs,
    CASE WHEN r.commit_id IS NULL THEN b.query_id ELSE 'revision' END AS landed_as
FROM medusa.quarantine AS q
LEFT JOIN medusa.quarantine_retry AS r ON r.quarantine_id = q.quarantine_id
LEFT JOIN medusa.landed_batch AS b ON b.batch_no = r.batch_no
WHERE (CAST(:stream AS text) IS NULL OR q.stream = :stream OR :stream = ANY (q.outputs))
    AND q.quarantine_id > :after
    AND (CAST(:numbers AS bigint[]) IS NULL OR q.quarantine_id = ANY (CAST(:numbers AS bigint[])))
ORDER BY q.quarantine_id LIMIT :limit;
