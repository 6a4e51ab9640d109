-- Supervision: jobs that are desired, and processes that were started for them.
--
-- An intent is written before a process is made, and the process takes it up itself: so a supervisor
-- may die anywhere between, and two of them never make two jobs. A job that is closed is taken up by
-- nobody. Leases, not these rows, keep two drivers from writing.

CREATE TABLE medusa.desired_job (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane       medusa.lane NOT NULL,
    is_desired  boolean NOT NULL,
    is_lasting boolean NOT NULL,
    because    text NOT NULL,
    who        text NOT NULL,
    login    text NOT NULL DEFAULT session_user,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT desired_job_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200),
    CONSTRAINT backlog_job_ends CHECK (lane = 'live' OR NOT is_lasting)
);
COMMENT ON TABLE medusa.desired_job IS
    'Whether a job of this participant shall run; insert-only, the newest of a lane counts.';
COMMENT ON COLUMN medusa.desired_job.is_lasting IS
    'Whether it is started again whenever it ends; else it is done when it has ended well.';
COMMENT ON COLUMN medusa.desired_job.who IS
    'The person or program, by its own statement; said_by is the login.';
CREATE INDEX desired_job_of_lane ON medusa.desired_job (lane, number);
COMMENT ON INDEX medusa.desired_job_of_lane IS
    'The desired job of a lane now.';

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
    stop_requested_at timestamptz,
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
    'When the process began, by its machine: together with its number it identifies the '
    'process.';
COMMENT ON COLUMN medusa.job.heard_at IS
    'When the process last reported that it runs.';
COMMENT ON COLUMN medusa.job.because IS 'Why it was asked to stop, or how it ended.';
CREATE UNIQUE INDEX job_of_lane_is_one ON medusa.job (lane) WHERE ended_at IS NULL;
COMMENT ON INDEX medusa.job_of_lane_is_one IS 'One job of a lane at a time, intended or running.';
CREATE INDEX job_for_desired ON medusa.job (desired, job_id);
COMMENT ON INDEX medusa.job_for_desired IS
    'The tries of the present desired job.';
