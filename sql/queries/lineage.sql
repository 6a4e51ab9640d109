-- What the content of a segment was computed from: found by its line and version.
SELECT l.commit_id, l.output, l.input, l.participant, l.replica, l.from_us, l.to_us,
    l.read_version, l.drop_rate
FROM medusa.lineage AS l
WHERE l.output = :stream AND l.commit_id = (
    SELECT s.commit_id
    FROM medusa.segment AS s JOIN medusa.stream_producer AS p ON p.line_id = s.line_id
    WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
        AND s.from_us < :to_us AND s.to_us > :from_us AND s.version = :version
    LIMIT 1)
ORDER BY l.position;
