-- What was taken back or revised here, of a stream or of all, by line and generation.
SELECT p.stream, p.participant, p.replica, r.generation, r.from_us, r.version, r.because, r.who,
    medusa.to_ms(r.recalled_at) AS recalled_at_ms, medusa.bounds_of(r.ranges) AS ranges,
    medusa.bounds_of(r.changed) AS changed
FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id
WHERE CAST(:stream AS text) IS NULL OR p.stream = :stream
ORDER BY p.stream, p.participant, p.replica, r.generation;
