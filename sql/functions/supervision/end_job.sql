CREATE OR REPLACE FUNCTION medusa.end_job(this_job bigint, code integer, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa.job AS j SET ended_at = clock_timestamp(), exit_code = code,
        because = nullif(concat_ws('; ', j.because, why), '')
    WHERE j.job_id = this_job AND j.ended_at IS NULL;
    IF FOUND THEN
        PERFORM pg_notify('medusa_supervision', '');
    END IF;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.end_job(bigint, integer, text) IS
    'Record that a job has ended, as its process or its supervisor reports; false: it was '
    'recorded already.';
