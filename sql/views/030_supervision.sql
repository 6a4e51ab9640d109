CREATE VIEW medusa_api.desired_jobs WITH (security_invoker = true) AS
    SELECT DISTINCT ON (lane) lane, is_desired, is_lasting, since, who, because, login, number
    FROM medusa.desired_job ORDER BY lane, number DESC;
COMMENT ON VIEW medusa_api.desired_jobs IS
    'Whether a job of this participant shall run in each lane, since when, and by whose '
    'request.';

CREATE VIEW medusa_api.jobs WITH (security_invoker = true) AS
    SELECT job_id, lane, host, pid, begun_at, heard_at, stop_requested_at, ended_at, exit_code, because,
        intended_at, intended_by, desired
    FROM medusa.job;
COMMENT ON VIEW medusa_api.jobs IS
    'Every intended job: its process, when it last reported, and how it ended.';
