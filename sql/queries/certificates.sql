-- What checks have found, of a stream or of all, the newest first.
SELECT c.certificate_id AS number, c.stream, c.participant, c.replica, c.version, c.suite, c.law,
    c.from_us, c.to_us, c.passed, c.figures, c.engines, c.quarantined,
    medusa.to_ms(c.certified_at) AS certified_at_ms
FROM medusa.certificate AS c
WHERE CAST(:stream AS text) IS NULL OR c.stream = :stream
ORDER BY c.certificate_id DESC LIMIT :limit;
