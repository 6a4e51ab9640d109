-- Take all of several leases or none; their ends in the order asked for.
SELECT medusa.acquire_leases(CAST(:asked AS jsonb), :holder, :ttl_ms) AS ends_ms;
