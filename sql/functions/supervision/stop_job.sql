CREATE OR REPLACE FUNCTION medusa.stop_job(this_job bigint, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa.job AS j SET stop_requested_at = clock_timestamp(), because = why
    WHERE j.job_id = this_job AND j.ended_at IS NULL AND j.stop_requested_at IS NULL;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.stop_job(bigint, text) IS
    'A job''s process shall end; false: that was requested before, or it has ended.';
