-- Take all of several leases or none; their ends in the order of the request.
SELECT medusa.acquire_leases(CAST(:requests AS jsonb), :holder, :ttl_ms) AS ends_ms;
