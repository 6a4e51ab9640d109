CREATE OR REPLACE FUNCTION medusa.take_up_job(
    wanted_job bigint, at_host text, as_pid integer, as_started text, begins boolean)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    UPDATE medusa.job AS j SET host = at_host, pid = as_pid, started = as_started,
        begun_at = CASE WHEN begins THEN coalesce(j.begun_at, at) ELSE j.begun_at END,
        heard_at = CASE WHEN begins THEN greatest(j.heard_at, at) ELSE j.heard_at END
    WHERE j.job_id = wanted_job AND j.ended_at IS NULL AND j.stop_asked_at IS NULL
        AND (j.pid IS NULL OR (j.host, j.pid, j.started) = (at_host, as_pid, as_started));
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.take_up_job(bigint, text, integer, text, boolean) IS
    'A process is a job''s: told by who made it, and by itself when it begins and as long as it is '
    'there. False: the job is another''s, was asked to stop or has ended, so the process has to end.';
