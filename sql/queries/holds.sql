-- The holds on a stream, by start.
SELECT stream, holder, purpose, from_us, limit_ms, path_ms FROM medusa.hold
WHERE stream = :stream ORDER BY from_us, holder, purpose;
