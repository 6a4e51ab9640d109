CREATE OR REPLACE FUNCTION medusa.desire_job(
    desired_lane text, desired boolean, lasting boolean, why text, by_whom text, renews boolean)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest medusa.desired_job;
    given  bigint;
BEGIN
    SELECT * INTO newest FROM medusa.desired_job AS d
    WHERE d.lane = desired_lane::medusa.lane ORDER BY d.number DESC LIMIT 1;
    IF NOT renews AND newest.is_desired = desired
        AND (NOT desired OR newest.is_lasting = lasting)
    THEN
        RETURN newest.number;
    END IF;
    INSERT INTO medusa.desired_job (lane, is_desired, is_lasting, because, who)
    VALUES (desired_lane::medusa.lane, desired, lasting, why, by_whom)
    RETURNING number INTO given;
    PERFORM pg_notify('medusa_supervision', '');
    RETURN given;
END $$;
COMMENT ON FUNCTION medusa.desire_job(text, boolean, boolean, text, text, boolean) IS
    'Declare whether a job shall run; returns the number of the declaration. The same again is '
    'recorded when it renews.';
