-- The streams of which records may be dropped, and what they are worth by delay and by loss.
SELECT stream, qos FROM medusa.stream_promise WHERE qos IS NOT NULL ORDER BY stream;
