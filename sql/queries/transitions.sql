-- The newest transitions of fragments' states (all if no limit is given), oldest first.
SELECT t.fragment, t.partition, t.participant, t.replica, t.state, t.because,
    medusa.to_ms(t.changed_at) AS changed_at_ms
FROM (
    SELECT * FROM medusa.transition ORDER BY transition_id DESC LIMIT :limit
) AS t
ORDER BY t.transition_id;
