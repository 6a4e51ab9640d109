-- Hold on to a lease that has not expired.
SELECT medusa.renew_lease(:fragment, :partition, :participant, :replica,
    CAST(:lane AS medusa.lane), :epoch, :holder, :ttl_ms) AS expires_at_ms;
