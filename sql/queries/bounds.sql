-- What is promised of the streams of this home, by name.
SELECT stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms
FROM medusa.stream_promise
ORDER BY stream;
