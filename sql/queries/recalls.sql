-- What was taken back here, of a stream or of all, by line and generation.
SELECT p.stream, p.participant, p.replica, r.generation, r.from_us, r.version, r.because, r.who,
    medusa.to_ms(r.recalled_at) AS recalled_at_ms
FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id
WHERE CAST(:stream AS text) IS NULL OR p.stream = :stream
ORDER BY p.stream, p.participant, p.replica, r.generation;
