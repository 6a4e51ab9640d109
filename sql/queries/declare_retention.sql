-- Say how long a stream is kept.
SELECT medusa.declare_retention(:stream, CAST(:retention_ms AS bigint));
