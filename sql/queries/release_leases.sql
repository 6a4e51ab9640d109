-- Give several leases back; nothing for those that are no longer ours.
SELECT medusa.release_leases(CAST(:requests AS jsonb));
