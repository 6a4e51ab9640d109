-- The log of owners of a fragment's partition, oldest first.
SELECT o.fragment, o.partition, o.epoch, o.participant, o.replica, o.from_us, o.timeout_ms,
    o.because
FROM medusa.fragment_owner AS o WHERE (o.fragment, o.partition) = (:fragment, :partition)
ORDER BY o.epoch;
