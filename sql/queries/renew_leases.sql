-- Hold on to several leases, each for itself.
SELECT medusa.renew_leases(CAST(:asked AS jsonb), :ttl_ms) AS answers;
