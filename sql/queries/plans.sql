-- The plans of the newest assignments, and of all older ones if requested, by network and fingerprint.
SELECT p.id, p.network, p.document FROM medusa.plan AS p
WHERE :superseded AND p.id IN (SELECT a.plan FROM medusa.assignment AS a) OR p.id IN (
    SELECT newest.plan FROM (
        SELECT DISTINCT ON (a.fragment, a.partition, a.replica) a.plan
        FROM medusa.assignment AS a
        ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC
    ) AS newest)
ORDER BY p.network, p.id;
