-- The assignments in force: the newest line of the log for each fragment, partition and replica,
-- of fragments that are computed.
SELECT DISTINCT ON (a.fragment, a.partition, a.replica)
    a.fragment, a.partition, a.participant, a.replica, a.epoch, a.plan, a.from_us
FROM medusa.assignment AS a JOIN medusa.fragment AS f ON f.id = a.fragment
WHERE f.stopped_at IS NULL
ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC;
