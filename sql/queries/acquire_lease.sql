-- Take a free or expired lease, or renew one's own.
SELECT medusa.acquire_lease(:fragment, :partition, :participant, :replica,
    CAST(:lane AS medusa.lane), :epoch, :holder, :ttl_ms) AS expires_at_ms;
