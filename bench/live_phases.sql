-- The phases of a participant's steps with records since a time: milliseconds a step.
WITH step AS (
    SELECT m.phases_ms FROM medusa.commit AS c JOIN medusa.step_metrics AS m USING (commit_id)
    WHERE c.participant = %(participant)s AND m.records_in > 0
        AND c.committed_at > to_timestamp(%(since_s)s)
)
SELECT phase.key AS phase, sum(phase.value::float8) / (SELECT count(*) FROM step) AS ms
FROM step, jsonb_each_text(step.phases_ms) AS phase GROUP BY 1 ORDER BY 2 DESC;
