-- How many records are in quarantine, of a stream or of all.
SELECT count(*) AS records FROM medusa.quarantine AS q
WHERE CAST(:stream AS text) IS NULL OR q.stream = :stream;
