-- The fragments of this home that are computed, imports apart, with the participants that they are assigned to, the
-- owner of their newest buckets, the state that they came into last, and their leases.
SELECT f.id AS fragment, a.partition, a.participant, a.replica, f.inputs, f.outputs,
    o.participant AS owner, o.because AS owned_because, t.state, t.because,
    medusa.to_ms(t.changed_at) AS since_ms, l.lane::text AS lane, l.epoch, l.holder,
    coalesce(l.expires_at > clock_timestamp(), false) AS is_held,
    medusa.to_ms(l.expires_at) AS expires_at_ms
FROM (
    SELECT DISTINCT ON (n.fragment, n.partition, n.replica) n.fragment, n.partition, n.participant,
        n.replica
    FROM medusa.assignment AS n
    ORDER BY n.fragment, n.partition, n.replica, n.epoch DESC
) AS a
JOIN medusa.fragment AS f ON f.id = a.fragment AND f.stopped_at IS NULL
    AND f.id NOT LIKE 'import/%'
LEFT JOIN LATERAL (
    SELECT w.participant, w.because FROM medusa.fragment_owner AS w
    WHERE (w.fragment, w.partition) = (a.fragment, a.partition) ORDER BY w.epoch DESC LIMIT 1
) AS o ON true
LEFT JOIN LATERAL (
    SELECT u.state::text AS state, u.because, u.changed_at FROM medusa.transition AS u
    WHERE (u.fragment, u.partition, u.participant, u.replica) =
        (a.fragment, a.partition, a.participant, a.replica)
    ORDER BY u.transition_id DESC LIMIT 1
) AS t ON true
LEFT JOIN medusa.lease AS l ON (l.fragment, l.partition, l.participant, l.replica) =
    (a.fragment, a.partition, a.participant, a.replica)
ORDER BY f.id, a.partition, a.replica, l.lane;
