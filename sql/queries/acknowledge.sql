-- Tell how far a reader has a stream's buckets, and what the path behind costs there.
SELECT medusa.acknowledge(:stream, :reader, :through_us, :limit_ms, :path_ms, :replica, :version);
