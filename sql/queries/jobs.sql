-- The jobs that are open, the newest of all, and those tried for what is desired now; newest first.
SELECT j.job_id, j.lane::text AS lane, j.desired, medusa.to_ms(j.intended_at) AS intended_at_ms,
    j.host, j.pid, j.started, medusa.to_ms(j.begun_at) AS begun_at_ms,
    medusa.to_ms(j.heard_at) AS heard_at_ms, medusa.to_ms(j.stop_requested_at) AS stop_requested_at_ms,
    medusa.to_ms(j.ended_at) AS ended_at_ms, j.exit_code, j.because
FROM medusa.job AS j
WHERE j.ended_at IS NULL OR j.job_id > (SELECT max(n.job_id) - 10 FROM medusa.job AS n)
    OR j.job_id IN (
    SELECT t.job_id FROM (SELECT DISTINCT ON (d.lane) d.number FROM medusa.desired_job AS d
        ORDER BY d.lane, d.number DESC) AS n,
    LATERAL (SELECT o.job_id FROM medusa.job AS o WHERE o.desired = n.number
        ORDER BY o.job_id DESC LIMIT :tried_max) AS t)
ORDER BY j.job_id DESC;
