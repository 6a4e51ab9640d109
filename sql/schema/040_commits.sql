-- Steps as they were made, what they cost, and the files that they wrote.

CREATE TABLE medusa.file (
    file_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream     text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    path       text COLLATE "C" NOT NULL UNIQUE,
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
    sha256     text NOT NULL,
    rows       bigint NOT NULL CHECK (rows >= 0)
);
COMMENT ON TABLE medusa.file IS
    'Files; one may serve several segments of its stream. A landed file may hold records of several '
    'streams: it is known under one of them, and each batch knows its own.';
COMMENT ON COLUMN medusa.file.path IS 'Relative to the home''s storage root.';

CREATE TABLE medusa.commit (
    commit_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key          text COLLATE "C" NOT NULL UNIQUE,
    fragment     text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition    integer NOT NULL,
    participant  text COLLATE "C" NOT NULL,
    replica      integer NOT NULL,
    lane         medusa.lane NOT NULL,
    epoch        bigint NOT NULL,
    plan         text COLLATE "C" NOT NULL REFERENCES medusa.plan,
    cause        medusa.cause NOT NULL,
    from_us      bigint NOT NULL,
    to_us        bigint NOT NULL,
    versions     jsonb NOT NULL,
    committed_at timestamptz NOT NULL
);
COMMENT ON TABLE medusa.commit IS 'Steps as they were made; insert-only.';
COMMENT ON COLUMN medusa.commit.key IS
    'Hash of the inputs and the plan: the same commit sent again finds its first reply.';
COMMENT ON COLUMN medusa.commit.from_us IS 'Start of the hull of all its segments; to_us its end.';
COMMENT ON COLUMN medusa.commit.versions IS 'Stream -> the version it got.';
CREATE INDEX commit_of_fragment ON medusa.commit (fragment, commit_id)
    WHERE cause IN ('normal', 'tentative', 'correction');
COMMENT ON INDEX medusa.commit_of_fragment IS 'The last steps of a fragment, landing aside.';

CREATE TABLE medusa.step_metrics (
    commit_id   bigint PRIMARY KEY REFERENCES medusa.commit,
    records_in  bigint NOT NULL,
    records_out bigint NOT NULL,
    spark_jobs  integer NOT NULL,
    phases_ms   jsonb NOT NULL
);
COMMENT ON TABLE medusa.step_metrics IS
    'The cost of a step: records, Spark jobs, time per phase.';

CREATE TABLE medusa.transition (
    transition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fragment      text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition     integer NOT NULL,
    participant   text COLLATE "C" NOT NULL,
    replica       integer NOT NULL,
    state         text NOT NULL CHECK (state IN ('STABLE', 'UP_FAILURE', 'STABILIZATION')),
    because       text NOT NULL,
    changed_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.transition IS
    'Changes of state of a fragment''s outputs; insert-only. The state itself is always '
    'derived, never read from here.';
COMMENT ON COLUMN medusa.transition.because IS
    'The inputs that are missing, or the owed results.';
CREATE INDEX transition_of_fragment ON medusa.transition
    (fragment, partition, participant, replica, transition_id);
COMMENT ON INDEX medusa.transition_of_fragment IS 'The newest state of a fragment.';
