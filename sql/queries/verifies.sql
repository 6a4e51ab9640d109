-- The streams of which more than one producer must agree, and how many must.
SELECT stream, verify_count FROM medusa.stream_promise WHERE verify_count > 1 ORDER BY stream;
