-- Say what a stream is worth by delay and by loss; NULL: nothing of it may be dropped.
SELECT medusa.declare_qos(:stream, CAST(:qos AS jsonb));
