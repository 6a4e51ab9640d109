CREATE OR REPLACE FUNCTION medusa.take_up_job(
    this_job bigint, at_host text, as_pid integer, as_started text, begins boolean)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    UPDATE medusa.job AS j SET host = at_host, pid = as_pid, started = as_started,
        begun_at = CASE WHEN begins THEN coalesce(j.begun_at, at) ELSE j.begun_at END,
        heard_at = CASE WHEN begins THEN greatest(j.heard_at, at) ELSE j.heard_at END
    WHERE j.job_id = this_job AND j.ended_at IS NULL AND j.stop_requested_at IS NULL
        AND (j.pid IS NULL OR (j.host, j.pid, j.started) = (at_host, as_pid, as_started));
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.take_up_job(bigint, text, integer, text, boolean) IS
    'Record that a process is a job''s: by the supervisor that started it, and by the process '
    'itself when it begins and while it runs. False: the job is another''s, was requested to '
    'stop or has ended, so the process has to end.';
