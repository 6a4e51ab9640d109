-- How many records are in quarantine, of all streams, or that a stream lacks.
SELECT count(*) AS records FROM medusa.quarantine AS q
WHERE CAST(:stream AS text) IS NULL OR q.stream = :stream OR :stream = ANY (q.outputs);
