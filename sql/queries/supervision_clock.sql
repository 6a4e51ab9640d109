-- The clock by which jobs are judged, and since when this home can have heard of them.
SELECT medusa.to_ms(clock_timestamp()) AS now_ms,
    medusa.to_ms(pg_postmaster_start_time()) AS reachable_since_ms;
