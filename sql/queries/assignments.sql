-- The assignments in force: the newest line of the log for each fragment, partition and replica.
SELECT DISTINCT ON (a.fragment, a.partition, a.replica)
    a.fragment, a.partition, a.participant, a.replica, a.epoch, a.plan, a.from_us
FROM medusa.assignment AS a
ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC;
