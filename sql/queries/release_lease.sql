-- Give a lease back; nothing if it is no longer ours.
SELECT medusa.release_lease(:fragment, :partition, :participant, :replica,
    CAST(:lane AS medusa.lane), :epoch, :holder);
