-- Place a cursor before all changes of a line, for the buckets from one on; what it needs is held.
SELECT medusa.place_cursor(:stream, :cursor, :participant, :replica, :from_us, :limit_ms);
