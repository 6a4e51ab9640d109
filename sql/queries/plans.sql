-- The plans of the assignments in force, by network and fingerprint.
SELECT p.id, p.network, p.document FROM medusa.plan AS p
WHERE p.id IN (
    SELECT newest.plan FROM (
        SELECT DISTINCT ON (a.fragment, a.partition, a.replica) a.plan
        FROM medusa.assignment AS a
        ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC
    ) AS newest)
ORDER BY p.network, p.id;
