-- Say where a stream is delivered, and from when on.
SELECT medusa.declare_sink(:stream, :sink, :document, :from_us, CAST(:through_us AS bigint),
    :limit_ms);
