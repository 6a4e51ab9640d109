CREATE OR REPLACE FUNCTION medusa.intend_job(for_desired bigint, supervisor text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry medusa.desired_job;
    given  bigint;
BEGIN
    SELECT * INTO entry FROM medusa.desired_job AS d WHERE d.number = for_desired;
    IF entry.is_desired IS NOT TRUE OR EXISTS (
        SELECT FROM medusa.desired_job AS d
        WHERE d.lane = entry.lane AND d.number > for_desired)
    THEN
        RAISE EXCEPTION 'what is desired has changed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.job AS j (lane, desired, intended_by)
    VALUES (entry.lane, for_desired, supervisor)
    ON CONFLICT (lane) WHERE ended_at IS NULL DO NOTHING
    RETURNING j.job_id INTO given;
    IF given IS NULL THEN
        RAISE EXCEPTION 'another supervisor intends a job of lane % or has started it: read again',
            entry.lane USING ERRCODE = 'MD002';
    END IF;
    RETURN given;
END $$;
COMMENT ON FUNCTION medusa.intend_job(bigint, text) IS
    'Record the intent to start a process for a desired job; returns its job''s number.';
