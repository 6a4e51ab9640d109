-- What is computed: streams, what is promised of them, query networks and their fragments, and who
-- computes which fragment.

CREATE TABLE medusa.stream (
    name        text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]*(/[a-z0-9_]+)?$'),
    kind        text NOT NULL CHECK (kind IN ('source', 'derived')),
    width_us    bigint NOT NULL CHECK (width_us > 0),
    columns     jsonb NOT NULL CHECK (jsonb_typeof(columns) = 'array'),
    key_columns text[] NOT NULL,
    declared_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.stream IS 'Streams by name; their shape never changes.';
COMMENT ON COLUMN medusa.stream.width_us IS 'Length of a bucket; every grid starts at the epoch.';
COMMENT ON COLUMN medusa.stream.columns IS 'Pairs [name, type] in declared order.';
COMMENT ON COLUMN medusa.stream.key_columns IS 'Columns that make a record unique, if any.';

CREATE TABLE medusa.stream_order (
    stream text COLLATE "C" PRIMARY KEY REFERENCES medusa.stream
);
COMMENT ON TABLE medusa.stream_order IS
    'A row per stream, locked shared to place a hold and exclusively to trim, so that a hold '
    'is placed before a trim or after it. Landing and committing do not wait for it.';

CREATE TABLE medusa.stream_promise (
    stream       text COLLATE "C" PRIMARY KEY REFERENCES medusa.stream,
    retention_ms bigint,
    declared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    bound_ms     bigint,
    during_failure       text NOT NULL DEFAULT 'process',
    during_stabilization text NOT NULL DEFAULT 'process',
    failure_ms_max       bigint,
    lag_ms       bigint NOT NULL DEFAULT 0,
    verify_count integer NOT NULL DEFAULT 1,
    follows_revisions boolean NOT NULL DEFAULT false,
    qos          jsonb CONSTRAINT qos_is_of_graphs CHECK (qos ?& '{delay_ms,loss,after}'),
    CONSTRAINT retention_is_above_zero CHECK (retention_ms > 0),
    CONSTRAINT bound_is_above_zero CHECK (bound_ms > 0),
    CONSTRAINT policies_are_known CHECK (
        during_failure IN ('process', 'delay', 'suspend')
        AND during_stabilization IN ('process', 'delay', 'suspend')),
    CONSTRAINT suspending_has_a_limit CHECK (
        (failure_ms_max > 0 AND failure_ms_max <= bound_ms) IS TRUE  -- a CHECK passes NULL
        OR failure_ms_max IS NULL
            AND 'suspend' NOT IN (during_failure, during_stabilization)),
    CONSTRAINT lag_is_not_below_zero CHECK (lag_ms >= 0),
    CONSTRAINT verify_count_is_above_zero CHECK (verify_count > 0)
);
COMMENT ON TABLE medusa.stream_promise IS
    'The promises of streams, as in contracts/streams.';
COMMENT ON COLUMN medusa.stream_promise.retention_ms IS
    'How long buckets are kept after their end, if nothing holds them; NULL: for good.';
COMMENT ON COLUMN medusa.stream_promise.bound_ms IS
    'The availability bound X of the stream, or of the strictest output behind it; NULL: none.';
COMMENT ON COLUMN medusa.stream_promise.during_failure IS
    'The policy for new buckets that lack an input.';
COMMENT ON COLUMN medusa.stream_promise.during_stabilization IS
    'The policy for new buckets while corrections are owed.';
COMMENT ON COLUMN medusa.stream_promise.failure_ms_max IS
    'How long a failure lasts at most, as declared; suspending needs it.';
COMMENT ON COLUMN medusa.stream_promise.lag_ms IS
    'How long after the event time of a bucket it is due; only differences are used.';
COMMENT ON COLUMN medusa.stream_promise.verify_count IS
    'How many producers must have equal rows before they are final for readers here.';
COMMENT ON COLUMN medusa.stream_promise.follows_revisions IS
    'Whether revisions of a partner''s line are followed here without asking the operator.';
COMMENT ON COLUMN medusa.stream_promise.qos IS
    'What the stream is worth by delay (ms) and by the share that is dropped; NULL: nothing of it '
    'may be dropped.';

CREATE TABLE medusa.network (
    name        text COLLATE "C" PRIMARY KEY,
    document    text NOT NULL,
    deployed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.network IS
    'Query networks as last deployed here; of one that only imports a stream, its lineage.';

CREATE TABLE medusa.plan (
    id        text COLLATE "C" PRIMARY KEY,
    network   text COLLATE "C" NOT NULL REFERENCES medusa.network,
    document  text NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.plan IS 'Everything that could change a result, by its fingerprint.';

CREATE TABLE medusa.fragment (
    id      text COLLATE "C" PRIMARY KEY,
    network text COLLATE "C" NOT NULL REFERENCES medusa.network,
    inputs  text[] NOT NULL,
    outputs text[] NOT NULL,
    starts_us bigint,
    stopped_at timestamptz
);
COMMENT ON TABLE medusa.fragment IS
    'Pieces of networks that are computed as one; a source''s landing is one without inputs.';
COMMENT ON COLUMN medusa.fragment.stopped_at IS
    'Since when it is not computed any more, whatever the assignment log says; NULL: it is.';
COMMENT ON COLUMN medusa.fragment.starts_us IS
    'The first bucket that is computed; NULL: that of the origin of its inputs.';

CREATE TABLE medusa.assignment (
    fragment    text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition   integer NOT NULL CHECK (partition >= 0),
    epoch       bigint NOT NULL CHECK (epoch > 0),
    participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica     integer NOT NULL CHECK (replica >= -1),
    plan        text COLLATE "C" NOT NULL REFERENCES medusa.plan,
    from_us     bigint,
    assigned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fragment, partition, epoch)
);
COMMENT ON TABLE medusa.assignment IS
    'Append-only log: the participant that computes a fragment from a bucket on, under which '
    'plan and epoch.';
COMMENT ON COLUMN medusa.assignment.from_us IS 'The first bucket it is for; NULL: from the origin.';

CREATE TABLE medusa.fragment_owner (
    fragment    text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition   integer NOT NULL CHECK (partition >= 0),
    epoch       bigint NOT NULL CHECK (epoch > 0),
    participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica     integer NOT NULL CHECK (replica >= 0),
    from_us     bigint NOT NULL,
    timeout_ms bigint NOT NULL CHECK (timeout_ms >= 0),
    because     text NOT NULL,
    noted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fragment, partition, epoch)
);
COMMENT ON TABLE medusa.fragment_owner IS
    'Append-only log: who owns a fragment''s buckets from one on. The last line that is for a '
    'bucket counts; without one this home owns it. This home commits what another owner computes.';
COMMENT ON COLUMN medusa.fragment_owner.timeout_ms IS
    'How long after its inputs a bucket of another owner is waited for before it is computed here.';
COMMENT ON COLUMN medusa.fragment_owner.because IS 'Why, with the numbers that decided it.';

CREATE TABLE medusa.lease (
    fragment    text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition   integer NOT NULL,
    participant text COLLATE "C" NOT NULL,
    replica     integer NOT NULL,
    lane        medusa.lane NOT NULL,
    epoch       bigint NOT NULL,
    holder      text NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (fragment, partition, participant, replica, lane)
);
COMMENT ON TABLE medusa.lease IS
    'One driver at a time computes (fragment, partition, producer, lane); free once expired.';
