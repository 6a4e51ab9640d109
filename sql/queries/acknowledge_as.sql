-- Note how far a partner has a stream's buckets; false if the stream is not granted to it.
SELECT medusa.acknowledge_as(:partner, :stream, :through_us, :limit_ms, :path_ms, :replica,
    :version) AS acknowledged;
