CREATE OR REPLACE FUNCTION medusa.guard_job() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL
        OR (OLD.job_id, OLD.lane, OLD.desired, OLD.intended_at, OLD.intended_by)
            IS DISTINCT FROM (NEW.job_id, NEW.lane, NEW.desired, NEW.intended_at, NEW.intended_by)
        OR OLD.pid IS NOT NULL AND (OLD.host, OLD.pid, OLD.started)
            IS DISTINCT FROM (NEW.host, NEW.pid, NEW.started)
        OR OLD.begun_at IS NOT NULL AND NEW.begun_at IS DISTINCT FROM OLD.begun_at
        OR NEW.heard_at < OLD.heard_at
        OR OLD.stop_requested_at IS NOT NULL AND NEW.stop_requested_at IS DISTINCT FROM OLD.stop_requested_at
    THEN
        RAISE EXCEPTION 'job % stays as it was written: intend another one', OLD.job_id
            USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_job() IS
    'Raises: a job has one process, and an ended job does not change.';
