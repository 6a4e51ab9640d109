-- Keep buckets of a stream from one on; the same holder and purpose moves its hold.
SELECT medusa.place_hold(:stream, :holder, :purpose, :from_us, :limit_ms);
