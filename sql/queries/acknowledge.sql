-- A reader has the buckets before a time durably.
SELECT medusa.acknowledge(:stream, :reader, :through_us, :limit_ms);
