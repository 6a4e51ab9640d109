-- The streams that are not kept for good, and for how long each is.
SELECT stream, retention_ms FROM medusa.stream_promise
WHERE retention_ms IS NOT NULL ORDER BY stream;
