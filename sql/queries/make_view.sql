-- Keep a named part of a stream for queries.
SELECT medusa.make_view(:view, :stream, :records, :duration_us, :from_us, :to_us, :limit_ms, :grows);
