-- The newest certificate of each check of a stream.
SELECT DISTINCT ON (c.law, c.suite) c.certificate_id AS number, c.participant, c.replica,
    c.version, c.suite, c.law, c.from_us, c.to_us, c.passed, c.figures, c.engines, c.quarantined,
    medusa.to_ms(c.certified_at) AS certified_at_ms
FROM (
    SELECT * FROM medusa.certificate AS n WHERE n.stream = :stream
    ORDER BY n.certificate_id DESC LIMIT 500
) AS c
ORDER BY c.law, c.suite, c.certificate_id DESC;
