-- Load: what CPU this participant's drivers spend, on what; and what load costs it. Both are private:
-- the owner and its jobs see them, nobody else of the home, and no partner.

CREATE TYPE medusa_market.load_kind AS ENUM (
    'work', 'deciding', 'delivery', 'housekeeping', 'starting', 'unattributed');

CREATE TABLE medusa_market.load_sample (
    sample_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    driver    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    lane      medusa.lane NOT NULL,
    length_ms bigint NOT NULL CHECK (length_ms > 0),
    total_us  bigint NOT NULL CHECK (total_us >= 0),
    ended_at  timestamptz NOT NULL,
    UNIQUE (driver, number)
);
COMMENT ON TABLE medusa_market.load_sample IS
    'CPU time of a driver in one period, some seconds long; insert-only until its retention '
    'has passed.';
COMMENT ON COLUMN medusa_market.load_sample.driver IS 'The process: its samples are numbered.';
COMMENT ON COLUMN medusa_market.load_sample.total_us IS 'CPU of its whole process tree.';
COMMENT ON COLUMN medusa_market.load_sample.ended_at IS
    'When the period ended, by this home''s clock.';
CREATE INDEX load_sample_ended ON medusa_market.load_sample (ended_at);
COMMENT ON INDEX medusa_market.load_sample_ended IS
    'The samples of a time, and those to be trimmed.';

CREATE TABLE medusa_market.load_part (
    sample_id bigint NOT NULL REFERENCES medusa_market.load_sample ON DELETE CASCADE,
    kind      medusa_market.load_kind NOT NULL,
    fragment  text COLLATE "C" REFERENCES medusa.fragment,
    partition integer,
    cause     medusa.cause,
    cpu_us    bigint NOT NULL CHECK (cpu_us > 0),
    CHECK ((kind = 'work') = (fragment IS NOT NULL)
        AND (fragment IS NULL) = (partition IS NULL)
        AND (fragment IS NULL) = (cause IS NULL))
);
COMMENT ON TABLE medusa_market.load_part IS
    'The parts of a sample''s CPU time: fragments by cause, and kinds that belong to no '
    'fragment.';
CREATE UNIQUE INDEX load_part_once
    ON medusa_market.load_part (sample_id, fragment, partition, cause, kind) NULLS NOT DISTINCT;
COMMENT ON INDEX medusa_market.load_part_once IS
    'One row for a fragment, partition and cause, or another kind; the parts of a sample.';

CREATE TABLE medusa_market.load_retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    keep    interval NOT NULL DEFAULT '30 days'
        CHECK (keep >= '1 hour' AND keep <= '3650 days')
);
COMMENT ON TABLE medusa_market.load_retention IS 'How long samples of load are kept: one row.';
INSERT INTO medusa_market.load_retention DEFAULT VALUES;

CREATE TYPE medusa_market.cost_kind AS ENUM ('queue', 'piecewise');

CREATE TABLE medusa_market.cost_function (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      medusa_market.cost_kind NOT NULL,
    capacity  double precision,
    scale     double precision,
    points    double precision[],
    threshold double precision NOT NULL,
    currency  text COLLATE "C" NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by    text NOT NULL DEFAULT session_user
);
COMMENT ON TABLE medusa_market.cost_function IS
    'The cost of load of this participant, as its owner declared it; insert-only, the newest '
    'counts.';
COMMENT ON COLUMN medusa_market.cost_function.capacity IS
    'Of a queue: CPU seconds per second that there are.';
COMMENT ON COLUMN medusa_market.cost_function.scale IS
    'Of a queue: currency per hour, times rho / (1 - rho), rho = load / capacity.';
COMMENT ON COLUMN medusa_market.cost_function.points IS
    'Of a piecewise linear function: {{load, cost}, ...}, cost in currency per hour.';
COMMENT ON COLUMN medusa_market.cost_function.threshold IS
    'CPU seconds per second: more is too much.';
