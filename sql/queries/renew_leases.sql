-- Hold on to several leases, each for itself.
SELECT medusa.renew_leases(CAST(:requests AS jsonb), :ttl_ms) AS answers;
