-- What shall run is desired state; what was started for it stands here before it is started.

-- Supervision: jobs that are desired, and processes that were started for them ---------------------
--
-- An intent is written before a process is made, and the process takes it up itself: so a supervisor
-- may die anywhere between, and two of them never make two jobs. A job that is closed is taken up by
-- nobody. Leases, not these rows, keep two drivers from writing.

CREATE TABLE medusa.desired_job (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane       medusa.lane NOT NULL,
    is_wanted  boolean NOT NULL,
    is_lasting boolean NOT NULL,
    because    text NOT NULL,
    who        text NOT NULL,
    said_by    text NOT NULL DEFAULT session_user,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT desired_job_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200),
    CONSTRAINT backlog_job_ends CHECK (lane = 'live' OR NOT is_lasting)
);
COMMENT ON TABLE medusa.desired_job IS
    'Whether a job of this participant shall run; insert-only, the newest of a lane counts.';
COMMENT ON COLUMN medusa.desired_job.is_lasting IS
    'Whether it is started again whenever it ends; else it is done when it has ended well.';
COMMENT ON COLUMN medusa.desired_job.who IS 'The person or program, as it said; said_by is the login.';
CREATE INDEX desired_job_of_lane ON medusa.desired_job (lane, number);
COMMENT ON INDEX medusa.desired_job_of_lane IS 'What is desired of a lane now.';
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.desired_job
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE TABLE medusa.job (
    job_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane          medusa.lane NOT NULL,
    desired       bigint NOT NULL REFERENCES medusa.desired_job,
    intended_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    intended_by   text NOT NULL CHECK (char_length(intended_by) BETWEEN 1 AND 300),
    host          text CHECK (char_length(host) BETWEEN 1 AND 255),
    pid           integer CHECK (pid > 1),
    started       text CHECK (char_length(started) BETWEEN 1 AND 100),
    begun_at      timestamptz,
    heard_at      timestamptz,
    stop_asked_at timestamptz,
    ended_at      timestamptz,
    exit_code     integer,
    because       text,
    CONSTRAINT job_is_of_a_process CHECK (
        (host IS NULL) = (pid IS NULL) AND (pid IS NULL) = (started IS NULL)),
    CONSTRAINT job_begins_as_a_process CHECK (
        (begun_at IS NULL OR pid IS NOT NULL) AND (begun_at IS NULL) = (heard_at IS NULL)),
    CONSTRAINT job_ends_once CHECK (exit_code IS NULL OR ended_at IS NOT NULL)
);
COMMENT ON TABLE medusa.job IS
    'Each intent to run this participant, the process that took it up, and how it ended.';
COMMENT ON COLUMN medusa.job.intended_by IS 'The supervisor.';
COMMENT ON COLUMN medusa.job.started IS
    'When the process began, as its machine says: with the number, no other process ever has it.';
COMMENT ON COLUMN medusa.job.heard_at IS 'When the process last said that it is there.';
COMMENT ON COLUMN medusa.job.because IS 'Why it was asked to stop, or how it ended.';
CREATE UNIQUE INDEX job_of_lane_is_one ON medusa.job (lane) WHERE ended_at IS NULL;
COMMENT ON INDEX medusa.job_of_lane_is_one IS 'One job of a lane at a time, intended or running.';
CREATE INDEX job_for_desired ON medusa.job (desired, job_id);
COMMENT ON INDEX medusa.job_for_desired IS 'What was tried for what is desired now.';
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.job
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.guard_job() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL
        OR (OLD.job_id, OLD.lane, OLD.desired, OLD.intended_at, OLD.intended_by)
            IS DISTINCT FROM (NEW.job_id, NEW.lane, NEW.desired, NEW.intended_at, NEW.intended_by)
        OR OLD.pid IS NOT NULL AND (OLD.host, OLD.pid, OLD.started)
            IS DISTINCT FROM (NEW.host, NEW.pid, NEW.started)
        OR OLD.begun_at IS NOT NULL AND NEW.begun_at IS DISTINCT FROM OLD.begun_at
        OR NEW.heard_at < OLD.heard_at
        OR OLD.stop_asked_at IS NOT NULL AND NEW.stop_asked_at IS DISTINCT FROM OLD.stop_asked_at
    THEN
        RAISE EXCEPTION 'job % stays as it was written: intend another one', OLD.job_id
            USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_job() IS
    'Raises: a job has one process, and what has ended does not change.';
REVOKE ALL ON FUNCTION medusa.guard_job() FROM PUBLIC;
CREATE TRIGGER guard BEFORE UPDATE ON medusa.job
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_job();

CREATE FUNCTION medusa.desire_job(
    wanted_lane text, wanted boolean, lasting boolean, why text, by_whom text, renews boolean)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest medusa.desired_job;
    given  bigint;
BEGIN
    SELECT * INTO newest FROM medusa.desired_job AS d
    WHERE d.lane = wanted_lane::medusa.lane ORDER BY d.number DESC LIMIT 1;
    IF NOT renews AND newest.is_wanted = wanted
        AND (NOT wanted OR newest.is_lasting = lasting)
    THEN
        RETURN newest.number;
    END IF;
    INSERT INTO medusa.desired_job (lane, is_wanted, is_lasting, because, who)
    VALUES (wanted_lane::medusa.lane, wanted, lasting, why, by_whom)
    RETURNING number INTO given;
    PERFORM pg_notify('medusa_supervision', '');
    RETURN given;
END $$;
COMMENT ON FUNCTION medusa.desire_job(text, boolean, boolean, text, text, boolean) IS
    'Say what shall run; the number of what is desired. The same again is written when it renews.';

CREATE FUNCTION medusa.intend_job(for_desired bigint, supervisor text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted medusa.desired_job;
    given  bigint;
BEGIN
    SELECT * INTO wanted FROM medusa.desired_job AS d WHERE d.number = for_desired;
    IF wanted.is_wanted IS NOT TRUE OR EXISTS (
        SELECT FROM medusa.desired_job AS d
        WHERE d.lane = wanted.lane AND d.number > for_desired)
    THEN
        RAISE EXCEPTION 'what is desired has changed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.job AS j (lane, desired, intended_by)
    VALUES (wanted.lane, for_desired, supervisor)
    ON CONFLICT (lane) WHERE ended_at IS NULL DO NOTHING
    RETURNING j.job_id INTO given;
    IF given IS NULL THEN
        RAISE EXCEPTION 'another supervisor intends a job of lane % or has started it: read again',
            wanted.lane USING ERRCODE = 'MD002';
    END IF;
    RETURN given;
END $$;
COMMENT ON FUNCTION medusa.intend_job(bigint, text) IS
    'Write down that a process is about to be made for what is desired; its job''s number.';

CREATE FUNCTION medusa.take_up_job(
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

CREATE FUNCTION medusa.stop_job(wanted_job bigint, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa.job AS j SET stop_asked_at = clock_timestamp(), because = why
    WHERE j.job_id = wanted_job AND j.ended_at IS NULL AND j.stop_asked_at IS NULL;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.stop_job(bigint, text) IS
    'A job''s process shall end; false: it was asked before, or has ended.';

CREATE FUNCTION medusa.end_job(wanted_job bigint, code integer, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa.job AS j SET ended_at = clock_timestamp(), exit_code = code,
        because = nullif(concat_ws('; ', j.because, why), '')
    WHERE j.job_id = wanted_job AND j.ended_at IS NULL;
    IF FOUND THEN
        PERFORM pg_notify('medusa_supervision', '');
    END IF;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.end_job(bigint, integer, text) IS
    'A job has ended, as its process says or its supervisor has seen; false: that was known.';

CREATE VIEW medusa_api.desired_jobs WITH (security_invoker = true) AS
    SELECT DISTINCT ON (lane) lane, is_wanted, is_lasting, since, who, because, said_by, number
    FROM medusa.desired_job ORDER BY lane, number DESC;
COMMENT ON VIEW medusa_api.desired_jobs IS
    'Whether a job of this participant shall run in each lane, since when, and who said so.';

CREATE VIEW medusa_api.jobs WITH (security_invoker = true) AS
    SELECT job_id, lane, host, pid, begun_at, heard_at, stop_asked_at, ended_at, exit_code, because,
        intended_at, intended_by, desired
    FROM medusa.job;
COMMENT ON VIEW medusa_api.jobs IS
    'Every job that was intended: its process, when it was last heard of, and how it ended.';

REVOKE ALL ON medusa.desired_job, medusa.job, medusa_api.desired_jobs, medusa_api.jobs FROM PUBLIC;
REVOKE ALL ON FUNCTION medusa.desire_job, medusa.intend_job, medusa.take_up_job, medusa.stop_job,
    medusa.end_job FROM PUBLIC;

CREATE FUNCTION medusa.grant_supervision_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['owner', 'job', 'airflow', 'analyst'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN role = current_user
            OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.desired_job, medusa.job, medusa_api.desired_jobs, '
            'medusa_api.jobs TO %I', role);
        CONTINUE WHEN kind = 'analyst';
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.desire_job, medusa.intend_job, '
            'medusa.take_up_job, medusa.stop_job, medusa.end_job, medusa.to_ms TO %I', role);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_supervision_to_roles() IS
    'The owner, jobs and Airflow say what shall run and run it; analysts look on.';
REVOKE ALL ON FUNCTION medusa.grant_supervision_to_roles() FROM PUBLIC;
SELECT medusa.grant_supervision_to_roles();
