-- The fragments that write a stream, and those that read it: where each is computed, and its last changes
-- of state, the newest first.
SELECT f.id AS fragment, f.network, :stream = ANY (f.outputs) AS writes, a.participant, a.replica,
    a.plan,
    (SELECT json_agg(json_build_array(u.state, u.because, u.at_ms)) FROM (
        SELECT t.state, t.because, medusa.to_ms(t.changed_at) AS at_ms FROM medusa.transition AS t
        WHERE (t.fragment, t.partition, t.participant, t.replica)
            = (a.fragment, a.partition, a.participant, a.replica)
        ORDER BY t.transition_id DESC LIMIT 5) AS u) AS states
FROM medusa.fragment AS f
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (n.partition, n.replica) n.fragment, n.partition, n.participant, n.replica,
        n.plan
    FROM medusa.assignment AS n WHERE n.fragment = f.id
    ORDER BY n.partition, n.replica, n.epoch DESC
) AS a
WHERE f.stopped_at IS NULL AND f.id NOT LIKE 'import/%'
    AND (:stream = ANY (f.outputs) OR :stream = ANY (f.inputs))
ORDER BY f.id, a.replica LIMIT 100;
