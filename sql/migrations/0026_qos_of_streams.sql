-- An overloaded home drops records of streams that have a quality of service (QoS).
ALTER TABLE medusa.stream_promise
    ADD COLUMN qos jsonb CONSTRAINT qos_is_of_graphs CHECK (qos ?& '{delay_ms,loss,after}');
COMMENT ON COLUMN medusa.stream_promise.qos IS
    'What the stream is worth by delay (ms) and by the share that is dropped; NULL: nothing of it '
    'may be dropped.';
