-- The state that each fragment assigned here came into last, and why; none for one that never left it.
SELECT n.fragment, n.partition, n.participant, n.replica, t.state, t.because,
    medusa.to_ms(t.changed_at) AS changed_at_ms
FROM (
    SELECT DISTINCT a.fragment, a.partition, a.participant, a.replica FROM medusa.assignment AS a
) AS n
CROSS JOIN LATERAL (
    SELECT * FROM medusa.transition AS u
    WHERE (u.fragment, u.partition, u.participant, u.replica) =
        (n.fragment, n.partition, n.participant, n.replica)
    ORDER BY u.transition_id DESC LIMIT 1
) AS t
ORDER BY n.fragment, n.partition, n.participant, n.replica;
