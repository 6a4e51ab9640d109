-- A participant's home: the one database that holds all it knows of its progress.
--
-- Read it top to bottom: who and what (participants, streams, plans, fragments), who computes what
-- (assignments, leases), what has landed, what was computed (producers' lines, segments, files,
-- commits, lineage), what was put aside (quarantine), what must be kept (holds); then the guards,
-- then the functions through which alone a job writes, then the views for people and the roles.
--
-- Event times are bigint microseconds UTC (`_us`); clocks are timestamptz, read with
-- clock_timestamp(), because a transaction that waited for a lock must see the time of now.
-- No foreign key, trigger, view or statement reaches another home, no extension is needed.
--
-- SQLSTATEs raised here, mapped to error classes in pipelines/catalog/postgres/database_errors.py:
--   MD001 refused: the request is wrong       MD002 conflict: somebody was first
--   MD006 diverged: what was read before is not what stands now
--   MD007 expired: what is asked for is trimmed
--   MDS01 law S1   MDS02 law S2   MDS07 law S7   MDS08 law S8 (a conflict)   MDLOG insert-only table

CREATE SCHEMA medusa;
CREATE SCHEMA medusa_api;
COMMENT ON SCHEMA medusa IS 'Tables and functions of a home.';
COMMENT ON SCHEMA medusa_api IS 'Views for people and for partners.';

CREATE TYPE medusa.stability AS ENUM ('stable', 'tentative', 'gap');
CREATE TYPE medusa.lane AS ENUM ('live', 'backlog');
CREATE TYPE medusa.cause AS ENUM ('landing', 'normal', 'tentative', 'correction', 'import');
COMMENT ON TYPE medusa.stability IS 'What a segment promises: stable and gap are final.';
COMMENT ON TYPE medusa.lane IS 'Which part of a fragment''s work a lease is for.';
COMMENT ON TYPE medusa.cause IS 'Why a step was made; it is metered and billed by cause.';


-- The home itself ---------------------------------------------------------------------------------

CREATE TABLE medusa.schema_migration (
    name       text COLLATE "C" PRIMARY KEY,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.schema_migration IS 'Which migrations this home has seen, with their hash.';
COMMENT ON COLUMN medusa.schema_migration.sha256 IS 'Of the file as it was applied.';

CREATE TABLE medusa.participant (
    name     text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    known_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.participant IS 'Participants that this home knows of, itself included.';

CREATE TABLE medusa.home (
    is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    incarnation uuid NOT NULL DEFAULT gen_random_uuid(),
    founded_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.home IS 'Whose home this is: one row. Deploying locks it.';
COMMENT ON COLUMN medusa.home.incarnation IS
    'Carried by cursors; set another after a backup was restored, so that they notice. Partners '
    'notice by the chains of lines, which begin with it.';


-- What is computed --------------------------------------------------------------------------------

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
    'A row per stream, locked shared by whoever places a hold and alone by whoever trims, so that '
    'a hold comes before a trim or after it. Landing and committing do not wait for it.';

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
    CONSTRAINT retention_is_above_zero CHECK (retention_ms > 0),
    CONSTRAINT bound_is_above_zero CHECK (bound_ms > 0),
    CONSTRAINT policies_are_known CHECK (
        during_failure IN ('process', 'delay', 'suspend')
        AND during_stabilization IN ('process', 'delay', 'suspend')),
    CONSTRAINT suspending_has_a_limit CHECK (
        failure_ms_max > 0 AND failure_ms_max <= bound_ms
        OR failure_ms_max IS NULL
            AND 'suspend' NOT IN (during_failure, during_stabilization)),
    CONSTRAINT lag_is_not_below_zero CHECK (lag_ms >= 0),
    CONSTRAINT verify_count_is_above_zero CHECK (verify_count > 0)
);
COMMENT ON TABLE medusa.stream_promise IS 'What is promised of streams, as in contracts/streams.';
COMMENT ON COLUMN medusa.stream_promise.retention_ms IS
    'How long buckets are kept after their end, if nothing holds them; NULL: for good.';
COMMENT ON COLUMN medusa.stream_promise.bound_ms IS
    'The availability bound X of the stream, or of the strictest output behind it; NULL: none.';
COMMENT ON COLUMN medusa.stream_promise.during_failure IS
    'What is done with new buckets that lack an input.';
COMMENT ON COLUMN medusa.stream_promise.during_stabilization IS
    'What is done with new buckets while corrections are owed.';
COMMENT ON COLUMN medusa.stream_promise.failure_ms_max IS
    'How long a failure lasts at most, as declared; suspending needs it.';
COMMENT ON COLUMN medusa.stream_promise.lag_ms IS
    'How long after the event time of a bucket it is due; only differences are used.';
COMMENT ON COLUMN medusa.stream_promise.verify_count IS
    'How many producers must have equal rows before they are final for readers here.';

CREATE TABLE medusa.network (
    name        text COLLATE "C" PRIMARY KEY,
    document    text NOT NULL,
    deployed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.network IS 'Query networks as last deployed here.';

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
    outputs text[] NOT NULL
);
COMMENT ON TABLE medusa.fragment IS
    'Pieces of networks that are computed as one; a source''s landing is one without inputs.';

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
    'Append-only log: who computes a fragment from a bucket on, under which plan and epoch.';
COMMENT ON COLUMN medusa.assignment.from_us IS 'The first bucket it is for; NULL: from the origin.';

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


-- What was computed -------------------------------------------------------------------------------

CREATE TABLE medusa.stream_producer (
    line_id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream       text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    participant  text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica      integer NOT NULL CHECK (replica >= -1),
    last_version bigint NOT NULL DEFAULT 0,
    origin_us    bigint,
    boundary_us  bigint,
    promised_us  bigint,
    end_us       bigint,
    trimmed_us   bigint,
    compared_us  bigint,
    generation   integer NOT NULL DEFAULT 1 CHECK (generation > 0),
    UNIQUE (stream, participant, replica),
    CHECK ((origin_us IS NULL) = (boundary_us IS NULL)),
    CHECK (boundary_us >= origin_us),
    CONSTRAINT line_is_trimmed_within_its_life CHECK (
        trimmed_us IS NULL
        OR (origin_us IS NOT NULL AND trimmed_us BETWEEN origin_us AND boundary_us))
);
COMMENT ON TABLE medusa.stream_producer IS
    'A line: what one producer wrote of one stream. Its row is the lock of a commit.';
COMMENT ON COLUMN medusa.stream_producer.replica IS
    'Counted from 0; -1 is the import''s line: what this home has chosen among the others.';
COMMENT ON COLUMN medusa.stream_producer.last_version IS
    'Taken by a commit under the row''s lock, held to its end: no smaller one appears later.';
COMMENT ON COLUMN medusa.stream_producer.origin_us IS
    'Where the line begins; NULL: it has not begun.';
COMMENT ON COLUMN medusa.stream_producer.boundary_us IS
    'How far live rows reach from the origin without a hole; the greatest bigint once ended.';
COMMENT ON COLUMN medusa.stream_producer.promised_us IS
    'A source''s promise: no later record before it.';
COMMENT ON COLUMN medusa.stream_producer.end_us IS 'Where the line ends, once that is known.';
COMMENT ON COLUMN medusa.stream_producer.generation IS
    'One more with each recall; see medusa.recall.';
COMMENT ON COLUMN medusa.stream_producer.trimmed_us IS
    'Everything of the line before it may be gone; NULL: nothing is.';
COMMENT ON COLUMN medusa.stream_producer.compared_us IS
    'Final rows before it have been compared with those of other producers; NULL: none has.';

CREATE TABLE medusa.line_version (
    line_id integer NOT NULL REFERENCES medusa.stream_producer,
    version bigint NOT NULL CHECK (version >= 0),
    chain   bytea NOT NULL CHECK (octet_length(chain) = 32),
    stable_us bigint,
    made_at   timestamptz,
    PRIMARY KEY (line_id, version)
);
COMMENT ON TABLE medusa.line_version IS
    'What a line had been made of at a version. A home that was set back to an old state, and went '
    'on from there, has another chain at the same version; trimming and compacting change none.';
COMMENT ON COLUMN medusa.line_version.chain IS
    'SHA-256 of the chain before and of what the commit wrote; of a partner''s line as it told it.';
COMMENT ON COLUMN medusa.line_version.stable_us IS
    'Where the stable prefix ended at that version; NULL: not known.';
COMMENT ON COLUMN medusa.line_version.made_at IS
    'When this home came to it, by its own clock; NULL: not known.';
CREATE INDEX line_version_made ON medusa.line_version (line_id, made_at);
COMMENT ON INDEX medusa.line_version_made IS 'Which version a line had at a time.';

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
    'Hash of what was computed: the same commit sent again finds its first answer.';
COMMENT ON COLUMN medusa.commit.from_us IS 'Start of the hull of all its segments; to_us its end.';
COMMENT ON COLUMN medusa.commit.versions IS 'Stream -> the version it got.';

CREATE TABLE medusa.step_metrics (
    commit_id   bigint PRIMARY KEY REFERENCES medusa.commit,
    records_in  bigint NOT NULL,
    records_out bigint NOT NULL,
    spark_jobs  integer NOT NULL,
    phases_ms   jsonb NOT NULL
);
COMMENT ON TABLE medusa.step_metrics IS 'What a step cost: records, Spark jobs, time per phase.';

CREATE FUNCTION medusa.total(counts bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT coalesce(sum(n), 0)::bigint FROM unnest(counts) AS n $$;
COMMENT ON FUNCTION medusa.total(bigint[]) IS 'The sum of an array.';

CREATE TABLE medusa.segment (
    segment_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line_id       integer NOT NULL REFERENCES medusa.stream_producer,
    from_us       bigint NOT NULL,
    to_us         bigint NOT NULL,
    stability     medusa.stability NOT NULL,
    generation    integer NOT NULL DEFAULT 1 CHECK (generation > 0),
    version       bigint NOT NULL,
    begin_version bigint NOT NULL,
    end_version   bigint,
    plan          text COLLATE "C" NOT NULL REFERENCES medusa.plan,
    commit_id     bigint NOT NULL REFERENCES medusa.commit,
    age_ms        bigint NOT NULL DEFAULT 0 CHECK (age_ms >= 0),
    missing       text[] NOT NULL DEFAULT '{}',
    bucket_us     bigint[] NOT NULL DEFAULT '{}',
    bucket_rows   bigint[] NOT NULL DEFAULT '{}',
    sum_a         numeric(50,0)[] NOT NULL DEFAULT '{}',
    sum_b         numeric(50,0)[] NOT NULL DEFAULT '{}',
    file_ids      bigint[] NOT NULL DEFAULT '{}',
    bucket_count  integer NOT NULL GENERATED ALWAYS AS (cardinality(bucket_us)) STORED,
    row_count     bigint NOT NULL GENERATED ALWAYS AS (medusa.total(bucket_rows)) STORED,
    CONSTRAINT segment_is_not_empty CHECK (from_us < to_us),
    CONSTRAINT segment_versions_are_in_order
        CHECK (version <= begin_version AND begin_version < end_version),
    CONSTRAINT segment_arrays_agree CHECK (
        cardinality(bucket_us) = cardinality(bucket_rows)
        AND cardinality(bucket_us) = cardinality(sum_a)
        AND cardinality(bucket_us) = cardinality(sum_b)
        AND array_position(sum_a, NULL) IS NULL
        AND array_position(sum_b, NULL) IS NULL
        AND array_position(sum_a, 'NaN') IS NULL
        AND array_position(sum_b, 'NaN') IS NULL
        AND (cardinality(bucket_us) = 0) = (cardinality(file_ids) = 0)),
    CONSTRAINT segment_gap_has_no_rows
        CHECK (stability <> 'gap' OR cardinality(bucket_us) = 0),
    CONSTRAINT segment_misses_only_when_tentative
        CHECK (stability = 'tentative' OR cardinality(missing) = 0),
    -- S3. The line is written as a range of one, so that no extension is needed.
    CONSTRAINT segment_live_rows_never_overlap EXCLUDE USING gist (
        int8range(line_id, line_id, '[]') WITH &&,
        int8range(from_us, to_us) WITH &&
    ) WHERE (end_version IS NULL)
);
COMMENT ON TABLE medusa.segment IS
    'Runs of whole buckets of a line with one stability and one version. Live: end_version IS NULL.';
COMMENT ON COLUMN medusa.segment.version IS
    'Of the content: what lineage names. A part that a correction left keeps it.';
COMMENT ON COLUMN medusa.segment.begin_version IS
    'The row was live at version V of its line where begin_version <= V < end_version.';
COMMENT ON COLUMN medusa.segment.end_version IS 'The version that superseded the row; NULL: live.';
COMMENT ON COLUMN medusa.segment.commit_id IS 'The commit of the content; its lineage is there.';
COMMENT ON COLUMN medusa.segment.age_ms IS 'How late it was already when written; never shrinks.';
COMMENT ON COLUMN medusa.segment.missing IS 'Input streams that were not there (tentative only).';
COMMENT ON COLUMN medusa.segment.bucket_us IS
    'Starts of the non-empty buckets, ascending; the other arrays run beside it.';
COMMENT ON COLUMN medusa.segment.bucket_rows IS 'Rows per bucket, the digest''s count.';
COMMENT ON COLUMN medusa.segment.sum_a IS 'First sum of row hashes per bucket, exact.';
COMMENT ON COLUMN medusa.segment.sum_b IS 'Second sum of row hashes per bucket, exact.';
COMMENT ON COLUMN medusa.segment.file_ids IS 'Files with its rows; they may hold other rows too.';

-- Live rows of a line do not overlap, so the order of their ends is the order of their starts, and
-- "from t on" is to_us > t. Nothing on the way of a step scans rows that are not live.
CREATE UNIQUE INDEX segment_live ON medusa.segment (line_id, to_us) WHERE end_version IS NULL;
CREATE INDEX segment_live_tentative ON medusa.segment (line_id, to_us)
    WHERE end_version IS NULL AND stability = 'tentative';
-- Superseded rows do overlap, so that no order of ends bounds a range: they are found as ranges.
CREATE INDEX segment_superseded ON medusa.segment USING gist
    (int8range(line_id, line_id, '[]'), int8range(from_us, to_us)) WHERE end_version IS NOT NULL;
CREATE INDEX segment_begun ON medusa.segment (line_id, begin_version);
CREATE INDEX segment_ended ON medusa.segment (line_id, end_version, to_us)
    WHERE end_version IS NOT NULL;
COMMENT ON INDEX medusa.segment_live IS 'Live rows of a line from an event time on.';
COMMENT ON INDEX medusa.segment_live_tentative IS 'What may be owed a correction.';
COMMENT ON INDEX medusa.segment_superseded IS 'Time travel.';
COMMENT ON INDEX medusa.segment_begun IS 'News of a line: what became live after a version.';
COMMENT ON INDEX medusa.segment_ended IS
    'News of a line: what was superseded after a version; how far corrections have come.';
CREATE INDEX segment_files ON medusa.segment USING gin (file_ids) WITH (fastupdate = off)
    WHERE cardinality(file_ids) > 0;
COMMENT ON INDEX medusa.segment_files IS 'Which rows name a file.';

CREATE TABLE medusa.lineage (
    commit_id    bigint NOT NULL REFERENCES medusa.commit,
    output       text COLLATE "C" NOT NULL,
    position     integer NOT NULL,
    input        text COLLATE "C" NOT NULL,
    participant  text COLLATE "C" NOT NULL,
    replica      integer NOT NULL,
    from_us      bigint NOT NULL,
    to_us        bigint NOT NULL,
    read_version bigint NOT NULL,
    drop_rate    double precision NOT NULL CHECK (drop_rate BETWEEN 0 AND 1),
    content      text CHECK (content ~ '^[0-9a-f]{64}$'),
    PRIMARY KEY (commit_id, output, position),
    CHECK (from_us < to_us)
);
COMMENT ON TABLE medusa.lineage IS
    'What each output stream of a commit was computed from; never a list of buckets.';
COMMENT ON COLUMN medusa.lineage.read_version IS 'The producer''s own version that was read.';
COMMENT ON COLUMN medusa.lineage.content IS
    'Fingerprint of what was read, where the output may be superseded; NULL: none is kept.';


-- What has landed ---------------------------------------------------------------------------------

CREATE TABLE medusa.landed_batch (
    batch_no  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line_id   integer NOT NULL REFERENCES medusa.stream_producer,
    stream    text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    query_id  text COLLATE "C" NOT NULL,
    batch_id  bigint NOT NULL,
    file_id   bigint REFERENCES medusa.file,
    records   bigint NOT NULL,
    landed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    source_state text,
    UNIQUE (stream, query_id, batch_id)
);
COMMENT ON TABLE medusa.landed_batch IS
    'The log of landed files, keyed so that a repeated batch lands once.';
COMMENT ON COLUMN medusa.landed_batch.file_id IS
    'NULL: the batch had no usable record, or all its buckets are trimmed.';
COMMENT ON COLUMN medusa.landed_batch.source_state IS
    'What the source must know to go on behind this batch, in words of its own.';
CREATE INDEX landed_batch_files ON medusa.landed_batch (file_id) WHERE file_id IS NOT NULL;
COMMENT ON INDEX medusa.landed_batch_files IS 'Batches whose file is kept.';
CREATE INDEX landed_batch_kept ON medusa.landed_batch (line_id) WHERE file_id IS NOT NULL;
COMMENT ON INDEX medusa.landed_batch_kept IS 'Batches of a line whose file is kept: trimming.';

CREATE TABLE medusa.source (
    stream      text COLLATE "C" PRIMARY KEY REFERENCES medusa.stream,
    document    text NOT NULL,
    declared_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.source IS 'How the sources that land here are fed.';
COMMENT ON COLUMN medusa.source.document IS 'JSON, as in contracts/streams.';

CREATE TABLE medusa.landed_bucket (
    line_id   integer NOT NULL,
    bucket_us bigint NOT NULL,
    batch_no  bigint NOT NULL,
    records   bigint NOT NULL CHECK (records > 0),
    PRIMARY KEY (line_id, bucket_us, batch_no)
);
COMMENT ON TABLE medusa.landed_bucket IS
    'Records per bucket and landed batch: what a run of buckets holds, found without a file.';


-- What was put aside, what must be kept -----------------------------------------------------------

CREATE TABLE medusa.quarantine (
    quarantine_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream         text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    origin         text NOT NULL,
    position       bigint,
    field          text NOT NULL,
    reason         text NOT NULL,
    content        text NOT NULL,
    commit_id      bigint REFERENCES medusa.commit,
    batch_no       bigint REFERENCES medusa.landed_batch,
    quarantined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    size_bytes     bigint,
    sha256         text,
    CONSTRAINT quarantine_hash_is_whole CHECK (sha256 ~ '^[0-9a-f]{64}$' AND size_bytes >= 0)
);
COMMENT ON TABLE medusa.quarantine IS 'Records that could not be used, where from and why.';
COMMENT ON COLUMN medusa.quarantine.origin IS 'A file or a box.';
COMMENT ON COLUMN medusa.quarantine.position IS 'A line of the file, a row, or a bucket start.';
COMMENT ON COLUMN medusa.quarantine.size_bytes IS
    'Length of the whole record, of which content has the first 1,024 bytes; NULL: not known.';
COMMENT ON COLUMN medusa.quarantine.sha256 IS 'Hash of the whole record; NULL: not known.';

CREATE TABLE medusa.quarantine_retry (
    quarantine_id bigint PRIMARY KEY REFERENCES medusa.quarantine,
    batch_no      bigint NOT NULL REFERENCES medusa.landed_batch,
    retried_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.quarantine_retry IS
    'Quarantined records that were repaired and landed, each once, with a batch of their own.';

CREATE TABLE medusa.hold (
    stream    text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    holder    text COLLATE "C" NOT NULL,
    purpose   text COLLATE "C" NOT NULL,
    from_us   bigint NOT NULL,
    limit_ms  bigint CHECK (limit_ms > 0),
    placed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    path_ms   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (stream, holder, purpose),
    CONSTRAINT path_is_not_below_zero CHECK (path_ms >= 0)
);
COMMENT ON TABLE medusa.hold IS 'What keeps buckets of a stream, from one bucket on.';
COMMENT ON COLUMN medusa.hold.limit_ms IS 'For how long; past it the owner may trim.';
COMMENT ON COLUMN medusa.hold.path_ms IS
    'What the rest of the path costs with the reader, as it says: what an answer here must leave.';

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
    'When a fragment''s outputs came into another state of the protocol; insert-only. The state '
    'itself is derived from what stands, never read from here.';
COMMENT ON COLUMN medusa.transition.because IS 'The inputs that are missing, or what is owed.';
CREATE INDEX transition_of_fragment ON medusa.transition
    (fragment, partition, participant, replica, transition_id);
COMMENT ON INDEX medusa.transition_of_fragment IS 'The newest state of a fragment.';

CREATE TABLE medusa.sink (
    stream       text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    name         text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    document     text NOT NULL,
    from_us      bigint NOT NULL,
    through_us   bigint,
    version      bigint,
    rows         bigint NOT NULL DEFAULT 0,
    lost_us      bigint NOT NULL DEFAULT 0,
    problem      text,
    declared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at timestamptz,
    PRIMARY KEY (stream, name),
    CONSTRAINT sink_delivers_from_its_beginning CHECK (through_us >= from_us)
);
COMMENT ON TABLE medusa.sink IS
    'Where streams are delivered, and a copy of how far each target says it has come.';
COMMENT ON COLUMN medusa.sink.document IS 'JSON, as in contracts/streams; passwords are not in it.';
COMMENT ON COLUMN medusa.sink.from_us IS 'Where it begins; the least bigint: at the origin.';
COMMENT ON COLUMN medusa.sink.through_us IS
    'All before it is in the target; NULL: not known. Its hold begins here.';
COMMENT ON COLUMN medusa.sink.version IS 'The version of the line up to which it was read.';
COMMENT ON COLUMN medusa.sink.lost_us IS 'How much event time was passed over as declared gaps.';
COMMENT ON COLUMN medusa.sink.problem IS 'Why it does not go on; NULL: it does.';

CREATE TABLE medusa.cursor (
    stream      text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    name        text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    line_id     integer NOT NULL REFERENCES medusa.stream_producer,
    incarnation uuid NOT NULL,
    version     bigint NOT NULL DEFAULT 0 CHECK (version >= 0),
    chain       bytea CHECK (octet_length(chain) = 32),
    from_us     bigint NOT NULL,
    placed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    moved_at    timestamptz,
    PRIMARY KEY (stream, name)
);
COMMENT ON TABLE medusa.cursor IS
    'How far consumers have applied the changes of streams; a cursor moves only when it is told to.';
COMMENT ON COLUMN medusa.cursor.incarnation IS
    'The home''s when the cursor was placed: after a restore it is another one.';
COMMENT ON COLUMN medusa.cursor.version IS 'Its consumer has applied the changes up to there.';
COMMENT ON COLUMN medusa.cursor.chain IS
    'The chain of the line at that version, where one is kept: another one is another past.';
COMMENT ON COLUMN medusa.cursor.from_us IS
    'Buckets from here on are told of; the least bigint: all.';

CREATE TABLE medusa.recall (
    recall_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line_id     integer NOT NULL REFERENCES medusa.stream_producer,
    generation  integer NOT NULL CHECK (generation > 1),
    from_us     bigint NOT NULL,
    because     text NOT NULL,
    who         text NOT NULL,
    version     bigint NOT NULL CHECK (version > 0),
    recalled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    made_in     xid8 NOT NULL DEFAULT pg_current_xact_id(),
    UNIQUE (line_id, generation),
    CONSTRAINT recall_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.recall IS
    'What operators took back: a line''s generations behind the first, with who and why; '
    'insert-only. Laws S1 and S2 hold within a generation.';
COMMENT ON COLUMN medusa.recall.from_us IS 'From this bucket on the line begins again.';
COMMENT ON COLUMN medusa.recall.version IS
    'The version of the line that took back what was there; later ones are of this generation.';
COMMENT ON COLUMN medusa.recall.made_in IS 'The transaction in which the guards let it be made.';

CREATE TABLE medusa.recall_follow (
    follow_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line_id    integer NOT NULL REFERENCES medusa.stream_producer,
    generation integer NOT NULL CHECK (generation > 1),
    from_us    bigint NOT NULL,
    because    text NOT NULL,
    who        text NOT NULL,
    agreed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    stays      jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT recall_follow_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.recall_follow IS
    'Partners'' recalls that the operator of this home agreed to follow; insert-only.';
COMMENT ON COLUMN medusa.recall_follow.generation IS 'Of the partner''s line, behind the recall.';
COMMENT ON COLUMN medusa.recall_follow.from_us IS
    'The recall may take back nothing before it.';
COMMENT ON COLUMN medusa.recall_follow.stays IS
    'Stream -> before when what is computed of it here stays: its inputs are trimmed there.';


CREATE TABLE medusa.certificate (
    certificate_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream         text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    participant    text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica        integer NOT NULL CHECK (replica >= -1),
    version        bigint NOT NULL,
    suite          text NOT NULL,
    law            text NOT NULL,
    from_us        bigint NOT NULL,
    to_us          bigint NOT NULL,
    passed         boolean NOT NULL,
    figures        jsonb NOT NULL,
    engines        jsonb NOT NULL,
    quarantined    bigint NOT NULL,
    certified_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT certificate_is_of_a_window CHECK (from_us < to_us),
    CONSTRAINT certificate_names_suite_and_law
        CHECK (suite ~ '^[a-z][a-z_]{0,62}$' AND law ~ '^[SLI][0-9]{1,2}$'),
    CONSTRAINT certificate_has_figures
        CHECK (jsonb_typeof(figures) = 'object' AND jsonb_typeof(engines) = 'object'),
    CONSTRAINT certificate_counts_records CHECK (quarantined >= 0)
);
COMMENT ON TABLE medusa.certificate IS
    'What a check found of a closed window of a line, whether it passed or not; insert-only.';
COMMENT ON COLUMN medusa.certificate.version IS 'Of the line, when it was looked at.';
COMMENT ON COLUMN medusa.certificate.suite IS 'Which check: converged, complete and so on.';
COMMENT ON COLUMN medusa.certificate.law IS 'The law that it is about, such as L2.';
COMMENT ON COLUMN medusa.certificate.figures IS 'What was counted, tentative and final apart.';
COMMENT ON COLUMN medusa.certificate.engines IS 'Box -> which engine computed it again, and why.';
COMMENT ON COLUMN medusa.certificate.quarantined IS
    'Records of the stream and its sources in quarantine, of any time, which no result holds.';
CREATE INDEX certificate_of_stream ON medusa.certificate (stream, certificate_id);
COMMENT ON INDEX medusa.certificate_of_stream IS 'The newest certificates of a stream.';

CREATE TABLE medusa.divergence (
    divergence_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream            text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    bucket_us         bigint NOT NULL,
    plan              text COLLATE "C" NOT NULL REFERENCES medusa.plan,
    participant       text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica           integer NOT NULL CHECK (replica >= 0),
    version           bigint NOT NULL CHECK (version >= 0),
    rows              bigint NOT NULL CHECK (rows >= 0),
    sum_a             numeric(50,0) NOT NULL,
    sum_b             numeric(50,0) NOT NULL,
    other_participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    other_replica     integer NOT NULL CHECK (other_replica >= 0),
    other_version     bigint NOT NULL CHECK (other_version >= 0),
    other_rows        bigint NOT NULL CHECK (other_rows >= 0),
    other_sum_a       numeric(50,0) NOT NULL,
    other_sum_b       numeric(50,0) NOT NULL,
    noticed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (stream, bucket_us, plan, participant, replica, version, other_participant,
        other_replica, other_version),
    CONSTRAINT divergence_is_of_two
        CHECK ((participant, replica) <> (other_participant, other_replica)),
    CONSTRAINT divergence_is_one
        CHECK ((rows, sum_a, sum_b) <> (other_rows, other_sum_a, other_sum_b))
);
COMMENT ON TABLE medusa.divergence IS
    'Two producers have different final rows in a bucket under one plan; insert-only. From that '
    'bucket on nothing of the stream becomes final here until it is settled.';
COMMENT ON COLUMN medusa.divergence.version IS 'Of the row that was compared; 0: there is none.';
COMMENT ON COLUMN medusa.divergence.rows IS 'With the two sums: the digest of the bucket.';

CREATE TABLE medusa.divergence_settled (
    divergence_id bigint PRIMARY KEY REFERENCES medusa.divergence,
    recall_id     bigint NOT NULL REFERENCES medusa.recall,
    settled_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.divergence_settled IS
    'Which recall ended a divergence: one of the two took its rows back; insert-only.';


-- Guards: the laws, even for the owner's plain SQL ------------------------------------------------

CREATE FUNCTION medusa.guard_insert_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: the table is insert-only, write a new line instead',
        TG_OP, TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa.guard_insert_only() IS 'Raises: what was written stays.';

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.assignment
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.transition
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.certificate
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.divergence
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.recall
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.divergence_settled
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.recall_follow
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.commit
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.file
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.landed_batch
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.landed_bucket
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.line_version
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.lineage
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.plan
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.quarantine_retry
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.quarantine
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.step_metrics
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.stream
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.stream_order
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER no_delete BEFORE DELETE OR TRUNCATE ON medusa.stream_producer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON medusa.segment
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.note_standing() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT least(least(p.boundary_us, p.end_us), (
        SELECT s.from_us FROM medusa.segment AS s
        WHERE s.line_id = p.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        ORDER BY s.to_us LIMIT 1))
    INTO NEW.stable_us FROM medusa.stream_producer AS p WHERE p.line_id = NEW.line_id;
    NEW.made_at := clock_timestamp();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.note_standing() IS
    'A version knows when this home came to it and where the stable prefix ended.';
CREATE TRIGGER note_standing BEFORE INSERT ON medusa.line_version
    FOR EACH ROW EXECUTE FUNCTION medusa.note_standing();

CREATE FUNCTION medusa.bring_order() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO medusa.stream_order (stream) VALUES (NEW.name);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.bring_order() IS 'Every stream has its row in stream_order.';
CREATE TRIGGER bring_order AFTER INSERT ON medusa.stream
    FOR EACH ROW EXECUTE FUNCTION medusa.bring_order();

CREATE FUNCTION medusa.chosen_through(stream text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(min(coalesce((
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1), p.boundary_us, -9223372036854775808)), (
            -- Who is wrong has to take it back, and the rows are what a person looks at.
            SELECT min(d.bucket_us) FROM medusa.divergence AS d
            WHERE d.stream = chosen_through.stream AND NOT EXISTS (
                SELECT FROM medusa.divergence_settled AS s
                WHERE s.divergence_id = d.divergence_id)))
    FROM medusa.stream_producer AS p
    WHERE p.stream = chosen_through.stream AND p.replica = -1
$$;
COMMENT ON FUNCTION medusa.chosen_through(text) IS
    'Up to where what is read of a stream''s producers is final here and not in dispute; NULL: there '
    'is no choice.';

CREATE FUNCTION medusa.check_trim(old medusa.stream_producer, new medusa.stream_producer)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    width bigint;
    other record;
BEGIN
    IF new.trimmed_us IS NULL OR new.trimmed_us < old.trimmed_us THEN
        RAISE EXCEPTION '% is trimmed before % and what is gone stays gone: give % or later',
            old.stream, old.trimmed_us, old.trimmed_us USING ERRCODE = 'MDS07';
    END IF;
    -- An older snapshot would not show a hold that was placed since.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% cannot be trimmed from a snapshot: trim in a READ COMMITTED transaction',
            old.stream USING ERRCODE = 'MDS07';
    END IF;
    -- Nobody places a hold on the stream from here on until this transaction has ended. It has the
    -- lock of the line, for which commits wait: it must not wait itself (trim_line did before).
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = old.stream
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a hold on % is being placed: trim again when that has ended', old.stream
            USING ERRCODE = 'MD002';
    END IF;
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = old.stream;
    IF new.trimmed_us % width <> 0 THEN
        RAISE EXCEPTION '% cannot be trimmed before %, off its grid: give a multiple of % us',
            old.stream, new.trimmed_us, width USING ERRCODE = 'MD001';
    END IF;
    IF (new.trimmed_us <= least(new.boundary_us, new.end_us)) IS NOT TRUE THEN
        RAISE EXCEPTION '% reaches to % only: trim no further', old.stream,
            least(new.boundary_us, new.end_us) USING ERRCODE = 'MDS07';
    END IF;
    SELECT t.from_us INTO other FROM medusa.segment AS t
    WHERE t.line_id = old.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
    ORDER BY t.to_us LIMIT 1;
    IF other.from_us < new.trimmed_us THEN
        RAISE EXCEPTION '% is tentative from % on: trim no further before it is corrected',
            old.stream, other.from_us USING ERRCODE = 'MDS07';
    END IF;
    IF old.replica >= 0 AND medusa.chosen_through(old.stream) < new.trimmed_us THEN
        RAISE EXCEPTION '% has been chosen to % only of its producers: trim no further', old.stream,
            medusa.chosen_through(old.stream) USING ERRCODE = 'MDS07';
    END IF;
    SELECT h.holder, h.purpose, h.from_us INTO other FROM medusa.hold AS h
    WHERE h.stream = old.stream AND h.from_us < new.trimmed_us AND medusa.is_held(h)
    ORDER BY h.from_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is held from % on by % (%): trim no further', old.stream, other.from_us,
            other.holder, other.purpose USING ERRCODE = 'MDS07';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_trim(medusa.stream_producer, medusa.stream_producer) IS
    'S7: nothing is trimmed under a hold, behind the boundary or before it is final.';

CREATE FUNCTION medusa.guard_recall() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stack text;
BEGIN
    -- What the guards of lines and segments go by; so it is written where all else is done, too.
    GET DIAGNOSTICS stack = PG_CONTEXT;
    IF stack !~ '(^|\n)PL/pgSQL function medusa\.(recall_line|follow_recalls)\(' THEN
        RAISE EXCEPTION 'a recall is made by medusa.recall alone, which does all that belongs to '
            'it: call that' USING ERRCODE = 'MDS02';
    END IF;
    NEW.made_in := pg_current_xact_id();
    NEW.recalled_at := clock_timestamp();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_recall() IS
    'S2: what is final is taken back by medusa.recall and whoever follows one, never by plain SQL.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.recall
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_recall();

CREATE FUNCTION medusa.guard_line() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_recalled boolean := false;
BEGIN
    IF NEW.generation IS DISTINCT FROM OLD.generation THEN
        is_recalled := NEW.generation > OLD.generation AND NEW.generation = (
                SELECT max(r.generation) FROM medusa.recall AS r
                WHERE r.line_id = OLD.line_id AND r.made_in = pg_current_xact_id_if_assigned())
            AND (NEW.boundary_us IS NOT NULL OR OLD.boundary_us IS NULL)
            AND NOT EXISTS (
                SELECT FROM medusa.segment AS s
                WHERE s.line_id = OLD.line_id AND s.end_version IS NULL
                    AND s.to_us > NEW.boundary_us);
        IF is_recalled IS NOT TRUE THEN
            RAISE EXCEPTION 'the line of % is of generation %: only medusa.recall begins another',
                OLD.stream, OLD.generation USING ERRCODE = 'MDS01';
        END IF;
    END IF;
    IF (NEW.line_id, NEW.stream, NEW.participant, NEW.replica)
        IS DISTINCT FROM (OLD.line_id, OLD.stream, OLD.participant, OLD.replica)
    THEN
        RAISE EXCEPTION 'the line of % by %/% cannot become another: insert a new line',
            OLD.stream, OLD.participant, OLD.replica USING ERRCODE = 'MDS01';
    END IF;
    IF NOT is_recalled AND (NEW.boundary_us < OLD.boundary_us
        OR (NEW.boundary_us IS NULL AND OLD.boundary_us IS NOT NULL))
    THEN
        RAISE EXCEPTION 'the boundary of % stands at % and never goes back: give % or later',
            OLD.stream, OLD.boundary_us, OLD.boundary_us USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.promised_us < OLD.promised_us
        OR (NEW.promised_us IS NULL AND OLD.promised_us IS NOT NULL)
    THEN
        RAISE EXCEPTION 'source % has promised % and a promise never goes back: give % or later',
            OLD.stream, OLD.promised_us, OLD.promised_us USING ERRCODE = 'MDS01';
    END IF;
    IF OLD.origin_us IS NOT NULL AND NEW.origin_us IS DISTINCT FROM OLD.origin_us THEN
        RAISE EXCEPTION 'stream % begins at % for ever: give that origin', OLD.stream, OLD.origin_us
            USING ERRCODE = 'MDS01';
    END IF;
    IF NOT is_recalled AND OLD.end_us IS NOT NULL AND NEW.end_us IS DISTINCT FROM OLD.end_us THEN
        RAISE EXCEPTION 'stream % ends at % for ever: give that end', OLD.stream, OLD.end_us
            USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.last_version < OLD.last_version THEN
        RAISE EXCEPTION 'the version of % stands at % and never goes back', OLD.stream,
            OLD.last_version USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.trimmed_us IS DISTINCT FROM OLD.trimmed_us THEN
        PERFORM medusa.check_trim(OLD, NEW);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_line() IS
    'S1: boundaries, promises and versions never go back but in a recall. S7: see check_trim.';
CREATE TRIGGER guard BEFORE UPDATE ON medusa.stream_producer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_line();

CREATE FUNCTION medusa.check_files(
    stream text, from_us bigint, to_us bigint, file_ids bigint[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    -- Locked, like what a foreign key names: a file that is about to be named is not removed.
    PERFORM FROM medusa.file AS f WHERE f.file_id = ANY (check_files.file_ids) FOR KEY SHARE;
    SELECT id INTO bad FROM unnest(check_files.file_ids) AS id
    WHERE NOT EXISTS (SELECT FROM medusa.file AS f
        WHERE f.file_id = id AND f.stream = check_files.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'segment [%, %) names file %, which is none of %: record the file first',
            check_files.from_us, check_files.to_us, bad, check_files.stream
            USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_files(text, bigint, bigint, bigint[]) IS
    'Raises unless the files are known and of the stream; they stay until the commit.';

CREATE FUNCTION medusa.guard_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name  text;
    width bigint;
    gone  bigint;
    born  integer;
    same  medusa.segment;
    own   boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        same := OLD;
        same.bucket_count := NEW.bucket_count;  -- generated after this trigger
        same.row_count := NEW.row_count;
        IF OLD.stability <> 'tentative' AND OLD.end_version IS NULL
            AND NEW.end_version IS NOT NULL
        THEN
            same.end_version := NEW.end_version;
            IF same IS NOT DISTINCT FROM NEW AND EXISTS (
                SELECT FROM medusa.recall AS r
                WHERE r.line_id = OLD.line_id AND r.from_us < OLD.to_us
                    AND r.made_in = pg_current_xact_id_if_assigned())
            THEN
                RETURN NEW;
            END IF;
            same.end_version := OLD.end_version;
        END IF;
        IF OLD.stability <> 'tentative' THEN
            -- Compaction: the same rows in another file, which guard_compaction counts.
            same.file_ids := NEW.file_ids;
            IF OLD.end_version IS NULL AND same IS NOT DISTINCT FROM NEW
                AND cardinality(OLD.file_ids) > 0 AND cardinality(NEW.file_ids) = 1
            THEN
                SELECT p.stream INTO name FROM medusa.stream_producer AS p
                WHERE p.line_id = NEW.line_id;
                PERFORM medusa.check_files(name, NEW.from_us, NEW.to_us, NEW.file_ids);
                RETURN NEW;
            END IF;
            RAISE EXCEPTION 'segment [%, %) is % and never changes: compute another range, or recall it',
                OLD.from_us, OLD.to_us, OLD.stability USING ERRCODE = 'MDS02';
        END IF;
        same.end_version := NEW.end_version;
        IF OLD.end_version IS NOT NULL OR same IS DISTINCT FROM NEW THEN
            RAISE EXCEPTION 'segment [%, %) keeps its content: supersede it by a later version',
                OLD.from_us, OLD.to_us USING ERRCODE = 'MDS02';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.end_version IS NOT NULL THEN
        RAISE EXCEPTION 'segment [%, %) would be superseded before it was live: history is not made up',
            NEW.from_us, NEW.to_us USING ERRCODE = 'MDS02';
    END IF;
    SELECT s.name, s.width_us, p.trimmed_us, p.generation, EXISTS (
        SELECT FROM medusa.home AS h WHERE h.participant = p.participant)
    INTO name, width, gone, born, own
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.line_id = NEW.line_id;
    IF born > 1 THEN
        SELECT coalesce(max(r.generation), 1) INTO NEW.generation FROM medusa.recall AS r
        WHERE r.line_id = NEW.line_id AND r.version < NEW.version;
    END IF;
    IF NEW.from_us % width <> 0 OR NEW.to_us % width <> 0 THEN
        RAISE EXCEPTION 'segment [%, %) of % is not on its grid: give multiples of % us',
            NEW.from_us, NEW.to_us, name, width USING ERRCODE = 'MD001';
    END IF;
    -- What a recall leaves of a row may reach over the place, as the row did; so may what a partner
    -- has instead of it.
    IF NEW.from_us < gone AND NOT (
        (NEW.version < NEW.begin_version OR NOT own AND NEW.to_us > gone) AND EXISTS (
            SELECT FROM medusa.recall AS r WHERE r.line_id = NEW.line_id))
    THEN
        RAISE EXCEPTION 'segment [%, %) of % begins before %, where all was final and is trimmed: '
            'read again and decide anew', NEW.from_us, NEW.to_us, name, gone
            USING ERRCODE = 'MD002';
    END IF;
    IF array_ndims(NEW.bucket_us) > 1 OR array_lower(NEW.bucket_us, 1) <> 1
        OR array_ndims(NEW.bucket_rows) > 1 OR array_lower(NEW.bucket_rows, 1) <> 1
        OR array_ndims(NEW.sum_a) > 1 OR array_lower(NEW.sum_a, 1) <> 1
        OR array_ndims(NEW.sum_b) > 1 OR array_lower(NEW.sum_b, 1) <> 1
        OR array_ndims(NEW.file_ids) > 1 OR array_lower(NEW.file_ids, 1) <> 1
    THEN  -- an empty array has neither
        RAISE EXCEPTION 'segment [%, %) of % has an array that is no list from 1 on: give lists',
            NEW.from_us, NEW.to_us, name USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(NEW.bucket_us, NEW.bucket_rows) WITH ORDINALITY AS b (at_us, n, i)
        WHERE at_us IS NULL OR n IS NULL OR at_us % width <> 0 OR n <= 0
            OR at_us < NEW.from_us OR at_us >= NEW.to_us OR at_us <= NEW.bucket_us[i - 1]
    ) THEN
        RAISE EXCEPTION 'segment [%, %) of % lists a bucket off its grid, outside, out of order or '
            'without rows: list non-empty buckets of % us once, ascending',
            NEW.from_us, NEW.to_us, name, width USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_files(name, NEW.from_us, NEW.to_us, NEW.file_ids);
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_segment() IS
    'S2: a row begins live and keeps its content; only a tentative one may be superseded, or in a '
    'recall any. '
    'Rows lie on the grid, behind what is trimmed, and name files of their stream. Of a final row '
    'only the file may change, for one with the same rows.';
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.segment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_segment();

CREATE FUNCTION medusa.guard_compaction() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named  numeric;
    stored bigint;
BEGIN
    SELECT sum(s.row_count) INTO named FROM medusa.segment AS s
    WHERE s.file_ids @> NEW.file_ids AND cardinality(s.file_ids) > 0;
    SELECT f.rows INTO stored FROM medusa.file AS f WHERE f.file_id = NEW.file_ids[1];
    IF named IS DISTINCT FROM stored THEN
        RAISE EXCEPTION 'the segments that name file % have % rows, the file has %: compact '
            'segments into a file of exactly their rows', NEW.file_ids[1], named, stored
            USING ERRCODE = 'MDS02';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.guard_compaction() IS
    'S2: a file that takes the place of others has as many rows as all segments that name it.';
CREATE CONSTRAINT TRIGGER guard_compaction AFTER UPDATE OF file_ids ON medusa.segment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.stability <> 'tentative' AND OLD.file_ids IS DISTINCT FROM NEW.file_ids)
    EXECUTE FUNCTION medusa.guard_compaction();

CREATE FUNCTION medusa.guard_hold() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One after the other with trimming: it must see every hold that was placed before.
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = NEW.stream FOR SHARE;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_hold() IS 'S7: a hold is placed before or after a trim.';
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.hold
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_hold();

CREATE FUNCTION medusa.guard_trimmed_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE p.line_id = OLD.line_id AND OLD.to_us <= p.trimmed_us)
    THEN
        RAISE EXCEPTION 'segment [%, %) is not trimmed: trim its line first', OLD.from_us,
            OLD.to_us USING ERRCODE = 'MDS07';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_trimmed_segment() IS 'S7: only what is trimmed is removed.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.segment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_trimmed_segment();

CREATE FUNCTION medusa.guard_file() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM medusa.segment AS s
            WHERE s.file_ids @> ARRAY[OLD.file_id] AND cardinality(s.file_ids) > 0)
        OR EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = OLD.file_id)
    THEN
        RAISE EXCEPTION 'file % is named by a segment or a landed batch: the table is insert-only '
            'but for files that nothing names', OLD.path USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_file() IS 'S10: a file that is named stays known.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.file
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_file();

CREATE FUNCTION medusa.guard_landed_batch() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    same medusa.landed_batch;
BEGIN
    same := OLD;
    same.file_id := NULL;
    IF NEW IS DISTINCT FROM same OR EXISTS (
        SELECT FROM medusa.landed_bucket AS k
        JOIN medusa.stream_producer AS p ON p.line_id = k.line_id
        JOIN medusa.stream AS s ON s.name = p.stream
        WHERE k.line_id = OLD.line_id AND k.batch_no = OLD.batch_no
            AND (k.bucket_us + s.width_us <= p.trimmed_us) IS NOT TRUE)
    THEN
        RAISE EXCEPTION 'batch % of % stays as it landed: the table is insert-only but for files '
            'of batches that are trimmed', OLD.batch_id, OLD.stream USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_landed_batch() IS
    'S7: a batch lets go of its file when all its buckets are trimmed; its key stays.';
CREATE TRIGGER guard BEFORE UPDATE ON medusa.landed_batch
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_landed_batch();

CREATE FUNCTION medusa.guard_assignment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    SELECT i.stream, i.trimmed_us INTO gone
    FROM medusa.fragment AS f
    JOIN medusa.home AS h ON h.participant = NEW.participant
    JOIN medusa.stream_producer AS i ON i.stream = ANY (f.inputs) AND i.trimmed_us IS NOT NULL
    JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs) AND o.boundary_us IS NULL
        AND (o.participant, o.replica) = (NEW.participant, NEW.replica)
    WHERE f.id = NEW.fragment LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'fragment % would begin without what % has lost before %: let it read a '
            'stream that is whole', NEW.fragment, gone.stream, gone.trimmed_us
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_assignment() IS
    'No output begins over input that is gone, as if there had been none.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.assignment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_assignment();

CREATE FUNCTION medusa.guard_home() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.participant <> OLD.participant THEN
        RAISE EXCEPTION 'this is the home of % for ever: create another database for %',
            OLD.participant, NEW.participant USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_home() IS 'A home belongs to one participant.';
CREATE TRIGGER guard BEFORE UPDATE ON medusa.home
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_home();


-- Functions: the only way in which a job writes ---------------------------------------------------

CREATE FUNCTION medusa.to_ms(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT floor(extract(epoch FROM at) * 1000)::bigint $$;
COMMENT ON FUNCTION medusa.to_ms(timestamptz) IS 'Milliseconds since the epoch.';

CREATE FUNCTION medusa.is_held(held medusa.hold) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT held.limit_ms IS NULL OR medusa.to_ms(held.placed_at)::numeric + held.limit_ms
        >= medusa.to_ms(clock_timestamp())
$$;
COMMENT ON FUNCTION medusa.is_held(medusa.hold) IS 'Whether a hold has not run out.';

CREATE FUNCTION medusa.found_home(participant text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner text;
BEGIN
    INSERT INTO medusa.participant (name) VALUES (found_home.participant) ON CONFLICT DO NOTHING;
    INSERT INTO medusa.home (participant) VALUES (found_home.participant) ON CONFLICT DO NOTHING;
    SELECT h.participant INTO owner FROM medusa.home AS h;
    IF owner <> found_home.participant THEN
        RAISE EXCEPTION 'this is the home of %: create another database for %',
            owner, found_home.participant USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.found_home(text) IS 'Say whose home this is; the same again is nothing.';

CREATE FUNCTION medusa.deploy(request jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
    stands record;
    last   bigint;
BEGIN
    -- Deployments of one home come one after the other.
    PERFORM FROM medusa.home FOR UPDATE;

    FOR wanted IN SELECT * FROM jsonb_to_recordset(request->'streams')
        AS w (name text, kind text, width_us bigint, columns jsonb, key_columns text[])
    LOOP
        SELECT * INTO stands FROM medusa.stream WHERE name = wanted.name;
        IF NOT FOUND THEN
            INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns) VALUES
                (wanted.name, wanted.kind, wanted.width_us, wanted.columns, wanted.key_columns);
        ELSIF (stands.kind, stands.width_us, stands.columns, stands.key_columns) IS DISTINCT FROM
            (wanted.kind, wanted.width_us, wanted.columns, wanted.key_columns)
        THEN
            RAISE EXCEPTION 'stream % stands with another shape (kind, width, columns or key): '
                'give the new one another name', wanted.name USING ERRCODE = 'MD001';
        END IF;
    END LOOP;

    INSERT INTO medusa.network (name, document)
    VALUES (request->>'network', request->>'document')
    ON CONFLICT (name) DO UPDATE SET document = excluded.document, deployed_at = clock_timestamp()
    WHERE network.document <> excluded.document;
    INSERT INTO medusa.plan (id, network, document)
    VALUES (request->>'plan', request->>'network', request->>'plan_document')
    ON CONFLICT (id) DO NOTHING;
    IF (SELECT (network, document) IS DISTINCT FROM
            (request->>'network', request->>'plan_document')
        FROM medusa.plan WHERE id = request->>'plan')
    THEN
        RAISE EXCEPTION 'plan % stands with another document: a plan is named by its fingerprint',
            request->>'plan' USING ERRCODE = 'MD001';
    END IF;

    FOR wanted IN SELECT * FROM jsonb_to_recordset(request->'fragments')
        AS w (id text, inputs text[], outputs text[])
    LOOP
        SELECT n.name INTO stands FROM unnest(wanted.inputs || wanted.outputs) AS n (name)
        WHERE NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = n.name) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % names stream %, which is not declared: declare it',
                wanted.id, stands.name USING ERRCODE = 'MD001';
        END IF;
        SELECT i.name AS input, o.name AS output INTO stands
        FROM medusa.stream AS i, medusa.stream AS o
        WHERE i.name = ANY (wanted.inputs) AND o.name = ANY (wanted.outputs)
            AND o.width_us % i.width_us <> 0 LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the buckets of % are no multiple of those of its input %: '
                'choose another width', stands.output, stands.input USING ERRCODE = 'MD001';
        END IF;
        -- An import writes a line of its own of what others compute.
        SELECT id INTO stands FROM medusa.fragment AS f
        WHERE f.id <> wanted.id AND f.outputs && wanted.outputs
            AND f.id NOT LIKE 'import/%' AND wanted.id NOT LIKE 'import/%' LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % writes a stream that % writes already: rename the output',
                wanted.id, stands.id USING ERRCODE = 'MD001';
        END IF;
        SELECT network INTO stands FROM medusa.fragment AS f
        WHERE f.id = wanted.id AND f.network <> request->>'network';
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % belongs to network %: rename it or its source',
                wanted.id, stands.network USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.fragment (id, network, inputs, outputs)
        VALUES (wanted.id, request->>'network', wanted.inputs, wanted.outputs)
        ON CONFLICT (id) DO UPDATE SET inputs = excluded.inputs, outputs = excluded.outputs
        WHERE (fragment.inputs, fragment.outputs) <> (excluded.inputs, excluded.outputs);
        -- A new output gets a line of everybody who was ever assigned, not of the next one only.
        INSERT INTO medusa.stream_producer (stream, participant, replica)
        SELECT DISTINCT output, a.participant, a.replica
        FROM medusa.assignment AS a, unnest(wanted.outputs) AS output
        WHERE a.fragment = wanted.id AND (a.replica = -1 OR wanted.id NOT LIKE 'import/%')
            AND NOT EXISTS (
                SELECT FROM medusa.stream_producer AS p
                WHERE (p.stream, p.participant, p.replica) = (output, a.participant, a.replica));
    END LOOP;

    FOR wanted IN SELECT * FROM jsonb_to_recordset(request->'assignments') AS w
        (fragment text, partition integer, epoch bigint, participant text, replica integer,
         plan text, from_us bigint)
    LOOP
        SELECT * INTO stands FROM medusa.fragment AS f WHERE f.id = wanted.fragment;
        IF NOT FOUND OR NOT EXISTS (SELECT FROM medusa.plan AS p WHERE p.id = wanted.plan) THEN
            RAISE EXCEPTION 'the assignment of % names a fragment or plan that is not deployed: '
                'deploy it first', wanted.fragment USING ERRCODE = 'MD001';
        END IF;
        IF wanted.partition < 0 OR wanted.replica < -1
            OR wanted.replica = -1 AND wanted.fragment NOT LIKE 'import/%'
        THEN
            RAISE EXCEPTION 'the assignment of % has a negative partition or replica: count from 0',
                wanted.fragment USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.participant (name) VALUES (wanted.participant) ON CONFLICT DO NOTHING;
        -- Looked for first: ON CONFLICT would wait for a commit that is updating the line.
        INSERT INTO medusa.stream_producer (stream, participant, replica)
        SELECT output, wanted.participant, wanted.replica FROM unnest(stands.outputs) AS output
        WHERE (wanted.replica = -1 OR wanted.fragment NOT LIKE 'import/%') AND NOT EXISTS (
            SELECT FROM medusa.stream_producer AS p
            WHERE (p.stream, p.participant, p.replica) =
                (output, wanted.participant, wanted.replica));
        CONTINUE WHEN EXISTS (
            SELECT FROM medusa.assignment AS a
            WHERE (a.fragment, a.partition, a.epoch) =
                    (wanted.fragment, wanted.partition, wanted.epoch)
                AND (a.participant, a.replica, a.plan, a.from_us) IS NOT DISTINCT FROM
                    (wanted.participant, wanted.replica, wanted.plan, wanted.from_us));
        SELECT coalesce(max(a.epoch), 0) INTO last FROM medusa.assignment AS a
        WHERE (a.fragment, a.partition) = (wanted.fragment, wanted.partition);
        IF wanted.epoch <> last + 1 THEN
            RAISE EXCEPTION 'epoch % of fragment % is not the next one: the log stands at %, '
                'read again and decide anew', wanted.epoch, wanted.fragment, last
                USING ERRCODE = 'MD002';
        END IF;
        INSERT INTO medusa.assignment
            (fragment, partition, epoch, participant, replica, plan, from_us)
        VALUES (wanted.fragment, wanted.partition, wanted.epoch, wanted.participant,
            wanted.replica, wanted.plan, wanted.from_us);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.deploy(jsonb) IS
    'Bring streams, network, plan, fragments and assignments in; the same again is nothing.';

CREATE FUNCTION medusa.check_epoch(
    fragment text, partition integer, participant text, replica integer, epoch bigint
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest record;
BEGIN
    SELECT a.epoch, a.participant INTO newest FROM medusa.assignment AS a
    WHERE a.fragment = check_epoch.fragment AND a.partition = check_epoch.partition
        AND a.replica = check_epoch.replica
    ORDER BY a.epoch DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fragment % is not assigned to anybody: deploy it first',
            check_epoch.fragment USING ERRCODE = 'MD001';
    END IF;
    IF newest.epoch IS DISTINCT FROM check_epoch.epoch
        OR newest.participant IS DISTINCT FROM check_epoch.participant
    THEN
        RAISE EXCEPTION 'fragment % is assigned to %/% under epoch %, not to %/% under epoch %: '
            'read the assignment again', check_epoch.fragment, newest.participant,
            check_epoch.replica, newest.epoch, check_epoch.participant, check_epoch.replica,
            check_epoch.epoch USING ERRCODE = 'MDS08';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_epoch(text, integer, text, integer, bigint) IS
    'S8: raises unless this epoch is the newest that the home knows.';

-- Here because it needs check_epoch. What commit_step has checked is true here already; this is for
-- plain SQL, and costs two look-ups by key.
CREATE FUNCTION medusa.guard_commit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM medusa.lease AS l
        WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane, l.epoch) =
                (NEW.fragment, NEW.partition, NEW.participant, NEW.replica, NEW.lane, NEW.epoch)
            AND l.expires_at > clock_timestamp())
    THEN
        RAISE EXCEPTION 'no lease of % (%) is held under epoch %: acquire it',
            NEW.fragment, NEW.lane, NEW.epoch USING ERRCODE = 'MDS08';
    END IF;
    PERFORM medusa.check_epoch(NEW.fragment, NEW.partition, NEW.participant, NEW.replica,
        NEW.epoch);
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_commit() IS
    'S8: no commit without an unexpired lease under the newest epoch.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.commit
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_commit();

CREATE FUNCTION medusa.check_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text
) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held  medusa.lease;
    clock timestamptz;
BEGIN
    -- NULL equals nothing and differs from nothing: it must not pass a comparison below.
    IF num_nulls(check_lease.fragment, check_lease.partition, check_lease.participant,
        check_lease.replica, check_lease.lane, check_lease.epoch, check_lease.holder) > 0
    THEN
        RAISE EXCEPTION 'the lease of % is not named in full: give fragment, partition, '
            'participant, replica, lane, epoch and holder', check_lease.fragment
            USING ERRCODE = 'MD001';
    END IF;
    SELECT * INTO held FROM medusa.lease AS l
    WHERE l.fragment = check_lease.fragment AND l.partition = check_lease.partition
        AND l.participant = check_lease.participant AND l.replica = check_lease.replica
        AND l.lane = check_lease.lane
    FOR UPDATE;
    clock := clock_timestamp();  -- after the lock: it may have been waited for
    IF held.holder IS DISTINCT FROM check_lease.holder
        OR held.epoch IS DISTINCT FROM check_lease.epoch
    THEN
        RAISE EXCEPTION 'the lease of % is not held by % under epoch %: acquire it',
            check_lease.fragment, check_lease.holder, check_lease.epoch USING ERRCODE = 'MDS08';
    END IF;
    IF held.expires_at IS NULL OR held.expires_at <= clock THEN
        RAISE EXCEPTION 'the lease of % expired at %: acquire it again and decide anew',
            check_lease.fragment, held.expires_at USING ERRCODE = 'MDS08';
    END IF;
    PERFORM medusa.check_epoch(check_lease.fragment, check_lease.partition,
        check_lease.participant, check_lease.replica, check_lease.epoch);
    RETURN clock;
END $$;
COMMENT ON FUNCTION medusa.check_lease(text, integer, text, integer, medusa.lane, bigint, text) IS
    'S8: locks the lease, raises unless it is held and not expired; returns the clock.';

CREATE FUNCTION medusa.refuse_without_line(
    stream text, participant text, replica integer
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'stream % has no line by %/%: deploy an assignment of its fragment first',
        stream, participant, replica USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.refuse_without_line(text, text, integer) IS
    'Raises: nothing can be written where no line is.';

CREATE FUNCTION medusa.acquire_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text, ttl_ms bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held  medusa.lease;
    until timestamptz;
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.fragment AS f WHERE f.id = acquire_lease.fragment) THEN
        RAISE EXCEPTION 'fragment % is not deployed here: deploy it first', acquire_lease.fragment
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.lease VALUES (acquire_lease.fragment, acquire_lease.partition,
        acquire_lease.participant, acquire_lease.replica, acquire_lease.lane,
        acquire_lease.epoch, acquire_lease.holder, '-infinity')
    ON CONFLICT DO NOTHING;
    SELECT * INTO held FROM medusa.lease AS l
    WHERE l.fragment = acquire_lease.fragment AND l.partition = acquire_lease.partition
        AND l.participant = acquire_lease.participant AND l.replica = acquire_lease.replica
        AND l.lane = acquire_lease.lane
    FOR UPDATE;
    PERFORM medusa.check_epoch(acquire_lease.fragment, acquire_lease.partition,
        acquire_lease.participant, acquire_lease.replica, acquire_lease.epoch);
    IF held.holder <> acquire_lease.holder AND held.expires_at > clock_timestamp() THEN
        RAISE EXCEPTION 'the lease of % is held by % until %: wait for its end',
            acquire_lease.fragment, held.holder, held.expires_at USING ERRCODE = 'MDS08';
    END IF;
    until := clock_timestamp() + acquire_lease.ttl_ms * interval '1 millisecond';
    UPDATE medusa.lease AS l
    SET epoch = acquire_lease.epoch, holder = acquire_lease.holder, expires_at = until
    WHERE l.fragment = acquire_lease.fragment AND l.partition = acquire_lease.partition
        AND l.participant = acquire_lease.participant AND l.replica = acquire_lease.replica
        AND l.lane = acquire_lease.lane;
    RETURN medusa.to_ms(until);
END $$;
COMMENT ON FUNCTION
    medusa.acquire_lease(text, integer, text, integer, medusa.lane, bigint, text, bigint) IS
    'Take a free or expired lease, or renew one''s own; returns its end in ms.';

CREATE FUNCTION medusa.renew_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text, ttl_ms bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM medusa.check_lease(renew_lease.fragment, renew_lease.partition,
        renew_lease.participant, renew_lease.replica, renew_lease.lane, renew_lease.epoch,
        renew_lease.holder);
    until := clock_timestamp() + renew_lease.ttl_ms * interval '1 millisecond';
    UPDATE medusa.lease AS l SET expires_at = until
    WHERE l.fragment = renew_lease.fragment AND l.partition = renew_lease.partition
        AND l.participant = renew_lease.participant AND l.replica = renew_lease.replica
        AND l.lane = renew_lease.lane;
    RETURN medusa.to_ms(until);
END $$;
COMMENT ON FUNCTION
    medusa.renew_lease(text, integer, text, integer, medusa.lane, bigint, text, bigint) IS
    'Hold on to a lease that is still ours; returns its end in ms.';

CREATE FUNCTION medusa.release_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held medusa.lease;
BEGIN
    SELECT * INTO held FROM medusa.lease AS l
    WHERE l.fragment = release_lease.fragment AND l.partition = release_lease.partition
        AND l.participant = release_lease.participant AND l.replica = release_lease.replica
        AND l.lane = release_lease.lane
    FOR UPDATE;
    IF held.holder = release_lease.holder AND held.epoch = release_lease.epoch THEN
        UPDATE medusa.lease AS l SET expires_at = least(l.expires_at, clock_timestamp())
        WHERE l.fragment = release_lease.fragment AND l.partition = release_lease.partition
            AND l.participant = release_lease.participant AND l.replica = release_lease.replica
            AND l.lane = release_lease.lane;
    END IF;
END $$;
COMMENT ON FUNCTION
    medusa.release_lease(text, integer, text, integer, medusa.lane, bigint, text) IS
    'Give a lease back; nothing if it is no longer ours.';

CREATE FUNCTION medusa.check_leases(asked jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    -- Whoever is not plainly right is looked at by check_lease, which says what is wrong.
    FOR bad IN
        SELECT w.* FROM jsonb_to_recordset(asked) AS w (fragment text, partition integer,
            participant text, replica integer, lane medusa.lane, epoch bigint, holder text)
        LEFT JOIN medusa.lease AS l
            ON (l.fragment, l.partition, l.participant, l.replica, l.lane) =
                (w.fragment, w.partition, w.participant, w.replica, w.lane)
        WHERE ((l.holder, l.epoch) = (w.holder, w.epoch) AND l.expires_at > clock_timestamp()
            AND (SELECT (a.epoch, a.participant) = (w.epoch, w.participant)
                FROM medusa.assignment AS a
                WHERE a.fragment = w.fragment AND a.partition = w.partition
                    AND a.replica = w.replica
                ORDER BY a.epoch DESC LIMIT 1)) IS NOT TRUE
        ORDER BY w.fragment COLLATE "C", w.partition, w.participant COLLATE "C", w.replica, w.lane
    LOOP
        PERFORM medusa.check_lease(bad.fragment, bad.partition, bad.participant, bad.replica,
            bad.lane, bad.epoch, bad.holder);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.check_leases(jsonb) IS
    'S8, for many: raises unless each is held and not expired; lock_leases comes before.';

CREATE FUNCTION medusa.lock_leases(asked jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- In one order, whoever asks: leases come before all else that a writer locks.
    PERFORM FROM medusa.lease AS l
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) IN (
        SELECT w.fragment, w.partition, w.participant, w.replica, w.lane
        FROM jsonb_to_recordset(asked) AS w (fragment text, partition integer, participant text,
            replica integer, lane medusa.lane))
    ORDER BY l.fragment, l.partition, l.participant, l.replica, l.lane
    FOR UPDATE OF l;
END $$;
COMMENT ON FUNCTION medusa.lock_leases(jsonb) IS 'Lock leases that are there, in one order.';

CREATE FUNCTION medusa.acquire_leases(asked jsonb, holder text, ttl_ms bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one  record;
    ends bigint[] := array_fill(NULL::bigint, ARRAY[jsonb_array_length(asked)]);
BEGIN
    FOR one IN
        SELECT w.* FROM ROWS FROM (jsonb_to_recordset(asked) AS (fragment text,
            partition integer, participant text, replica integer, lane medusa.lane, epoch bigint))
            WITH ORDINALITY AS w (fragment, partition, participant, replica, lane, epoch, i)
        ORDER BY w.fragment COLLATE "C", w.partition, w.participant COLLATE "C", w.replica, w.lane
    LOOP
        ends[one.i] := medusa.acquire_lease(one.fragment, one.partition, one.participant,
            one.replica, one.lane, one.epoch, acquire_leases.holder, acquire_leases.ttl_ms);
    END LOOP;
    RETURN ends;
END $$;
COMMENT ON FUNCTION medusa.acquire_leases(jsonb, text, bigint) IS
    'Take all of several leases or none; returns their ends in ms, in the order asked for.';

CREATE FUNCTION medusa.renew_leases(asked jsonb, ttl_ms bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one     record;
    until   timestamptz;
    answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(asked)]);
    state   text;
    said    text;
BEGIN
    PERFORM medusa.lock_leases(asked);
    until := clock_timestamp() + renew_leases.ttl_ms * interval '1 millisecond';
    FOR one IN
        UPDATE medusa.lease AS l SET expires_at = until
        FROM ROWS FROM (jsonb_to_recordset(asked) AS (fragment text, partition integer,
            participant text, replica integer, lane medusa.lane, epoch bigint, holder text))
            WITH ORDINALITY AS w (fragment, partition, participant, replica, lane, epoch, holder, i)
        WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
                (w.fragment, w.partition, w.participant, w.replica, w.lane)
            AND (l.holder, l.epoch) = (w.holder, w.epoch) AND l.expires_at > clock_timestamp()
            AND (SELECT (a.epoch, a.participant) = (w.epoch, w.participant)
                FROM medusa.assignment AS a
                WHERE a.fragment = w.fragment AND a.partition = w.partition
                    AND a.replica = w.replica
                ORDER BY a.epoch DESC LIMIT 1)
        RETURNING w.i
    LOOP
        answers[one.i] := to_jsonb(medusa.to_ms(until));
    END LOOP;
    FOR one IN
        SELECT w.* FROM ROWS FROM (jsonb_to_recordset(asked) AS (fragment text,
            partition integer, participant text, replica integer, lane medusa.lane, epoch bigint,
            holder text))
            WITH ORDINALITY AS w (fragment, partition, participant, replica, lane, epoch, holder, i)
        WHERE answers[w.i] IS NULL
        ORDER BY w.fragment COLLATE "C", w.partition, w.participant COLLATE "C", w.replica, w.lane
    LOOP
        BEGIN
            answers[one.i] := to_jsonb(medusa.renew_lease(one.fragment, one.partition,
                one.participant, one.replica, one.lane, one.epoch, one.holder,
                renew_leases.ttl_ms));
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
            answers[one.i] := jsonb_build_object('sqlstate', state, 'message', said);
        END;
    END LOOP;
    RETURN to_jsonb(answers);
END $$;
COMMENT ON FUNCTION medusa.renew_leases(jsonb, bigint) IS
    'Hold on to several leases; for each its end in ms, or the error that refuses it.';

CREATE FUNCTION medusa.release_leases(asked jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.lock_leases(asked);
    UPDATE medusa.lease AS l SET expires_at = least(l.expires_at, clock_timestamp())
    FROM jsonb_to_recordset(asked) AS w (fragment text, partition integer, participant text,
        replica integer, lane medusa.lane, epoch bigint, holder text)
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
            (w.fragment, w.partition, w.participant, w.replica, w.lane)
        AND (l.holder, l.epoch) = (w.holder, w.epoch);
END $$;
COMMENT ON FUNCTION medusa.release_leases(jsonb) IS
    'Give several leases back; nothing for those that are no longer ours.';

CREATE FUNCTION medusa.check_writes(fragment text, stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.fragment AS f
        WHERE f.id = check_writes.fragment AND check_writes.stream = ANY (f.outputs))
    THEN
        RAISE EXCEPTION 'fragment % does not write stream %: commit it under the fragment that does',
            check_writes.fragment, check_writes.stream USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_writes(text, text) IS
    'Raises unless the fragment writes the stream.';

CREATE FUNCTION medusa.record_files(stream text, files jsonb) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids   bigint[];
    other text;
BEGIN
    INSERT INTO medusa.file (stream, path, size_bytes, sha256, rows)
    SELECT record_files.stream, w.path, w.size_bytes, w.sha256, w.rows
    FROM jsonb_to_recordset(files) AS w (path text, size_bytes bigint, sha256 text, rows bigint)
    ORDER BY w.path
    ON CONFLICT (path) DO NOTHING;
    SELECT array_agg(f.file_id ORDER BY w.i),
        min(w.path) FILTER (WHERE (f.stream, f.size_bytes, f.sha256, f.rows)
            IS DISTINCT FROM (record_files.stream, w.size_bytes, w.sha256, w.rows))
    INTO ids, other
    FROM ROWS FROM (jsonb_to_recordset(files)
            AS (path text, size_bytes bigint, sha256 text, rows bigint)) WITH ORDINALITY
        AS w (path, size_bytes, sha256, rows, i)
    JOIN medusa.file AS f ON f.path = w.path;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'file % is known with other content or for another stream: '
            'write under a new name', other USING ERRCODE = 'MD001';
    END IF;
    RETURN coalesce(ids, '{}');
END $$;
COMMENT ON FUNCTION medusa.record_files(text, jsonb) IS
    'The ids of files, new or known; raises if a path is known with another content.';

CREATE FUNCTION medusa.put_aside(records jsonb, commit_id bigint, batch_no bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unknown text;
BEGIN
    SELECT r.stream INTO unknown FROM jsonb_to_recordset(records) AS r (stream text)
    WHERE NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = r.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'quarantine names stream %, which is not deployed here: deploy it first',
            unknown USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.quarantine
        (stream, origin, position, field, reason, content, commit_id, batch_no, size_bytes, sha256)
    SELECT r.stream, r.origin, r.position, r.field, r.reason, r.content,
        put_aside.commit_id, put_aside.batch_no, r.size_bytes, r.sha256
    FROM ROWS FROM (jsonb_to_recordset(records) AS (stream text, origin text, position bigint,
            field text, reason text, content text, size_bytes bigint, sha256 text))
        WITH ORDINALITY
        AS r (stream, origin, position, field, reason, content, size_bytes, sha256, i)
    ORDER BY r.i;
END $$;
COMMENT ON FUNCTION medusa.put_aside(jsonb, bigint, bigint) IS 'Write records to quarantine.';

CREATE FUNCTION medusa.note_retries(stream text, retried bigint[], batch_no bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    SELECT n INTO bad FROM unnest(retried) AS n
    WHERE NOT EXISTS (SELECT FROM medusa.quarantine AS q
        WHERE q.quarantine_id = n AND q.stream = note_retries.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'stream % has no record % in quarantine: give one that is there',
            note_retries.stream, bad USING ERRCODE = 'MD001';
    END IF;
    SELECT r.quarantine_id INTO bad FROM medusa.quarantine_retry AS r
    WHERE r.quarantine_id = ANY (retried) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'record % of quarantine has landed already: leave it out', bad
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.quarantine_retry (quarantine_id, batch_no)
    SELECT n, note_retries.batch_no FROM unnest(retried) AS n;
END $$;
COMMENT ON FUNCTION medusa.note_retries(text, bigint[], bigint) IS
    'Note which quarantined records land repaired with a batch, each once.';

CREATE FUNCTION medusa.land(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked  record;
    line   record;
    number bigint;
    bad    bigint;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        fragment text, partition integer, participant text, replica integer, lane medusa.lane,
        epoch bigint, holder text, stream text, query_id text, batch_id bigint, files jsonb,
        bucket_us bigint[], bucket_records bigint[], quarantine jsonb, source_state text,
        retried bigint[]);
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    PERFORM medusa.check_writes(asked.fragment, asked.stream);
    -- Replicas of a source land one after the other, so that a batch lands once for all of them.
    PERFORM FROM medusa.stream WHERE name = asked.stream FOR NO KEY UPDATE;
    SELECT p.line_id, p.boundary_us, p.promised_us, s.width_us INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE (p.stream, p.participant, p.replica) = (asked.stream, asked.participant, asked.replica)
    FOR UPDATE OF p;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.participant, asked.replica);
    END IF;
    -- Both may have been waited for: the lease may have ended, or a newer epoch come (S8).
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    IF EXISTS (SELECT FROM medusa.landed_batch AS b
        WHERE (b.stream, b.query_id, b.batch_id) =
            (asked.stream, asked.query_id, asked.batch_id))
    THEN
        RETURN false;
    END IF;
    SELECT at_us INTO bad FROM unnest(asked.bucket_us) AS at_us
    WHERE at_us % line.width_us <> 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'batch % of % counts bucket %, which is not on its grid: '
            'give multiples of % us', asked.batch_id, asked.stream, bad, line.width_us
            USING ERRCODE = 'MD001';
    END IF;
    SELECT at_us INTO bad FROM unnest(asked.bucket_us) AS at_us
    WHERE at_us < line.boundary_us OR at_us + line.width_us <= line.promised_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'batch % of % has records in bucket %, before what its source has promised: '
            'they are late, put them into quarantine', asked.batch_id, asked.stream, bad
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.landed_batch
        (line_id, stream, query_id, batch_id, file_id, records, source_state)
    VALUES (line.line_id, asked.stream, asked.query_id, asked.batch_id,
        (medusa.record_files(asked.stream, asked.files))[1], medusa.total(asked.bucket_records),
        asked.source_state)
    RETURNING batch_no INTO number;
    INSERT INTO medusa.landed_bucket (line_id, bucket_us, batch_no, records)
    SELECT line.line_id, b.at_us, number, b.n
    FROM unnest(asked.bucket_us, asked.bucket_records) AS b (at_us, n);
    PERFORM medusa.put_aside(asked.quarantine, NULL, number);
    PERFORM medusa.note_retries(asked.stream, asked.retried, number);
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.land(jsonb) IS
    'Log a landed file once; false if (stream, query id, batch id) had landed before.';

CREATE FUNCTION medusa.promise(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text, stream text, origin_us bigint, boundary_us bigint, end_us bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line record;
    bad  bigint;
BEGIN
    PERFORM medusa.check_lease(promise.fragment, promise.partition, promise.participant,
        promise.replica, promise.lane, promise.epoch, promise.holder);
    PERFORM medusa.check_writes(promise.fragment, promise.stream);
    SELECT p.line_id, p.boundary_us, s.kind, s.width_us INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.stream = promise.stream AND p.participant = promise.participant
        AND p.replica = promise.replica
    FOR UPDATE OF p;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(promise.stream, promise.participant, promise.replica);
    END IF;
    PERFORM medusa.check_lease(promise.fragment, promise.partition, promise.participant,
        promise.replica, promise.lane, promise.epoch, promise.holder);  -- the line was waited for
    IF line.kind <> 'source' THEN
        RAISE EXCEPTION '% is computed, not landed: only a source makes promises', promise.stream
            USING ERRCODE = 'MD001';
    END IF;
    IF promise.origin_us % line.width_us <> 0 OR promise.end_us % line.width_us <> 0
        OR promise.end_us < promise.origin_us
    THEN
        RAISE EXCEPTION 'the origin and end of % are not on its grid or not in order: '
            'give multiples of % us', promise.stream, line.width_us USING ERRCODE = 'MD001';
    END IF;
    SELECT b.bucket_us INTO bad FROM medusa.landed_bucket AS b
    WHERE b.line_id = line.line_id AND b.bucket_us >= promise.end_us
    ORDER BY b.bucket_us DESC LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'stream % has records landed in bucket %, at or after the end %: '
            'end it later', promise.stream, bad, promise.end_us USING ERRCODE = 'MD001';
    END IF;
    SELECT b.bucket_us INTO bad FROM medusa.landed_bucket AS b
    WHERE b.line_id = line.line_id AND b.bucket_us < promise.origin_us
    ORDER BY b.bucket_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'stream % has records landed in bucket %, before the origin %: '
            'begin it earlier', promise.stream, bad, promise.origin_us USING ERRCODE = 'MD001';
    END IF;
    -- S1 is the row's guard. A source that ends where its live rows end has ended with this.
    UPDATE medusa.stream_producer AS p
    SET origin_us = promise.origin_us,
        boundary_us = CASE
            WHEN coalesce(p.boundary_us, promise.origin_us) >= promise.end_us
            THEN 9223372036854775807
            ELSE coalesce(p.boundary_us, promise.origin_us) END,
        promised_us = promise.boundary_us,
        end_us = coalesce(promise.end_us, p.end_us)
    WHERE p.line_id = line.line_id;
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.promise(text, integer, text, integer, medusa.lane, bigint, text, text,
    bigint, bigint, bigint) IS 'A source''s promise: no later record before boundary_us.';

CREATE FUNCTION medusa.lock_lines(asked jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    bad record;
BEGIN
    SELECT w.fragment, w.stream INTO bad
    FROM jsonb_to_recordset(asked) AS w (fragment text, stream text)
    WHERE NOT EXISTS (SELECT FROM medusa.fragment AS f
        WHERE f.id = w.fragment AND w.stream = ANY (f.outputs)) LIMIT 1;
    IF FOUND THEN
        PERFORM medusa.check_writes(bad.fragment, bad.stream);
    END IF;
    PERFORM FROM medusa.stream AS s
    WHERE s.name IN (SELECT w.stream FROM jsonb_to_recordset(asked) AS w (stream text))
    ORDER BY s.name FOR NO KEY UPDATE OF s;
    PERFORM FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) IN (
        SELECT w.stream, w.participant, w.replica FROM jsonb_to_recordset(asked) AS w
            (stream text, participant text, replica integer))
    ORDER BY p.stream, p.participant, p.replica FOR UPDATE OF p;
    SELECT w.* INTO bad FROM jsonb_to_recordset(asked) AS w
        (stream text, participant text, replica integer)
    WHERE NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica)) LIMIT 1;
    IF FOUND THEN
        PERFORM medusa.refuse_without_line(bad.stream, bad.participant, bad.replica);
    END IF;
    PERFORM medusa.check_leases(asked);  -- the lines were waited for
END $$;
COMMENT ON FUNCTION medusa.lock_lines(jsonb) IS
    'Lock the lines of several sources, whose leases are locked, and look at the leases again.';

CREATE FUNCTION medusa.land_many(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    asked  record;
    bad    record;
    wanted bigint;
    landed bigint;
    rows   numeric;
    file   bigint;
BEGIN
    SELECT * INTO asked
    FROM jsonb_to_record(request) AS w (batches jsonb, file jsonb, file_of text);
    PERFORM medusa.lock_leases(asked.batches);
    PERFORM medusa.check_leases(asked.batches);
    PERFORM medusa.lock_lines(asked.batches);

    -- All or none.
    SELECT count(*), count(b.batch_no) INTO wanted, landed
    FROM jsonb_to_recordset(asked.batches) AS w (stream text, query_id text, batch_id bigint)
    LEFT JOIN medusa.landed_batch AS b
        ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id);
    IF landed = wanted THEN
        RETURN false;
    END IF;
    IF landed > 0 THEN
        SELECT w.* INTO bad
        FROM jsonb_to_recordset(asked.batches) AS w (stream text, query_id text, batch_id bigint)
        JOIN medusa.landed_batch AS b
            ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id)
        ORDER BY w.stream LIMIT 1;
        RAISE EXCEPTION 'batch % of % landed without the others that come with it: give it '
            'another number', bad.batch_id, bad.stream USING ERRCODE = 'MD001';
    END IF;
    -- What land would refuse it does refuse, in its words.
    SELECT w.value AS request INTO bad
    FROM jsonb_array_elements(asked.batches) AS w,
        jsonb_to_record(w.value) AS r
            (stream text, participant text, replica integer, bucket_us bigint[])
    JOIN medusa.stream_producer AS p
        ON (p.stream, p.participant, p.replica) = (r.stream, r.participant, r.replica)
    JOIN medusa.stream AS s ON s.name = r.stream
    WHERE EXISTS (SELECT FROM unnest(r.bucket_us) AS at_us
        WHERE at_us % s.width_us <> 0 OR at_us < p.boundary_us
            OR at_us + s.width_us <= p.promised_us) LIMIT 1;
    IF FOUND THEN
        PERFORM medusa.land(bad.request);
    END IF;

    SELECT sum(n) INTO rows
    FROM jsonb_to_recordset(asked.batches) AS w (bucket_records bigint[]),
        unnest(w.bucket_records) AS n;
    IF rows IS DISTINCT FROM (asked.file->>'rows')::numeric THEN
        RAISE EXCEPTION 'batches with % records would land in a file of % rows: count again',
            coalesce(rows, 0), coalesce(asked.file->>'rows', 'no') USING ERRCODE = 'MD001';
    END IF;
    IF asked.file IS NOT NULL THEN
        file := (medusa.record_files(asked.file_of, jsonb_build_array(asked.file)))[1];
    END IF;
    INSERT INTO medusa.landed_batch
        (line_id, stream, query_id, batch_id, file_id, records, source_state)
    SELECT p.line_id, w.stream, w.query_id, w.batch_id,
        CASE WHEN cardinality(w.bucket_us) > 0 THEN file END, medusa.total(w.bucket_records),
        w.source_state
    FROM jsonb_to_recordset(asked.batches) AS w (stream text, participant text, replica integer,
        query_id text, batch_id bigint, bucket_us bigint[], bucket_records bigint[],
        source_state text)
    JOIN medusa.stream_producer AS p
        ON (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica)
    ORDER BY w.stream;
    INSERT INTO medusa.landed_bucket (line_id, bucket_us, batch_no, records)
    SELECT b.line_id, k.at_us, b.batch_no, k.n
    FROM jsonb_to_recordset(asked.batches) AS w (stream text, query_id text, batch_id bigint,
        bucket_us bigint[], bucket_records bigint[])
    JOIN medusa.landed_batch AS b
        ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id),
        unnest(w.bucket_us, w.bucket_records) AS k (at_us, n);
    FOR bad IN
        SELECT w.stream, w.quarantine, w.retried, b.batch_no
        FROM jsonb_to_recordset(asked.batches) AS w (stream text, query_id text, batch_id bigint,
            quarantine jsonb, retried bigint[])
        JOIN medusa.landed_batch AS b
            ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id)
        WHERE jsonb_array_length(w.quarantine) > 0 OR cardinality(w.retried) > 0
        ORDER BY w.stream
    LOOP
        PERFORM medusa.put_aside(bad.quarantine, NULL, bad.batch_no);
        PERFORM medusa.note_retries(bad.stream, bad.retried, bad.batch_no);
    END LOOP;
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.land_many(jsonb) IS
    'Log one file with the records of several streams once, for all of them or none.';

CREATE FUNCTION medusa.promise_many(asked jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    bad record;
BEGIN
    PERFORM medusa.lock_leases(asked);
    PERFORM medusa.check_leases(asked);
    PERFORM medusa.lock_lines(asked);
    -- What promise would refuse it does refuse, in its words.
    FOR bad IN
        SELECT w.* FROM jsonb_to_recordset(asked) AS w (fragment text, partition integer,
            participant text, replica integer, lane medusa.lane, epoch bigint, holder text,
            stream text, origin_us bigint, boundary_us bigint, end_us bigint)
        JOIN medusa.stream_producer AS p
            ON (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica)
        JOIN medusa.stream AS s ON s.name = w.stream
        WHERE s.kind <> 'source' OR (w.origin_us % s.width_us = 0) IS NOT TRUE
            OR w.end_us % s.width_us <> 0 OR w.end_us < w.origin_us
            OR EXISTS (SELECT FROM medusa.landed_bucket AS b
                WHERE b.line_id = p.line_id AND b.bucket_us >= w.end_us)
            OR EXISTS (SELECT FROM medusa.landed_bucket AS b
                WHERE b.line_id = p.line_id AND b.bucket_us < w.origin_us)
    LOOP
        PERFORM medusa.promise(bad.fragment, bad.partition, bad.participant, bad.replica, bad.lane,
            bad.epoch, bad.holder, bad.stream, bad.origin_us, bad.boundary_us, bad.end_us);
    END LOOP;
    UPDATE medusa.stream_producer AS p
    SET origin_us = w.origin_us,
        boundary_us = CASE
            WHEN coalesce(p.boundary_us, w.origin_us) >= w.end_us THEN 9223372036854775807
            ELSE coalesce(p.boundary_us, w.origin_us) END,
        promised_us = w.boundary_us,
        end_us = coalesce(w.end_us, p.end_us)
    FROM jsonb_to_recordset(asked) AS w (participant text, replica integer, stream text,
        origin_us bigint, boundary_us bigint, end_us bigint)
    WHERE (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.promise_many(jsonb) IS
    'Promises of several sources, all or none: no later record before their boundary_us.';

CREATE FUNCTION medusa.answer(made medusa.commit, again boolean) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('versions', made.versions,
        'committed_at_ms', medusa.to_ms(made.committed_at), 'again', again)
$$;
COMMENT ON FUNCTION medusa.answer(medusa.commit, boolean) IS 'What a commit is answered.';

CREATE FUNCTION medusa.chain_at(line_id integer, version bigint) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chain bytea;
BEGIN
    SELECT v.chain INTO chain FROM medusa.line_version AS v
    WHERE (v.line_id, v.version) = (chain_at.line_id, chain_at.version);
    IF NOT FOUND THEN
        SELECT sha256(convert_to(h.incarnation || '/' || chain_at.version, 'UTF8')) INTO chain
        FROM medusa.home AS h;
    END IF;
    RETURN chain;
END $$;
COMMENT ON FUNCTION medusa.chain_at(integer, bigint) IS
    'The chain of a line that is written here, at a version; where none is known one begins.';

CREATE FUNCTION medusa.supersede(old_id bigint, by_version bigint, by jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old   medusa.segment;
    cut   record;
    at_us bigint;
    first integer;
    past  integer;
BEGIN
    UPDATE medusa.segment SET end_version = by_version WHERE segment_id = old_id RETURNING * INTO old;
    -- What lies between the superseding ranges stays as it was: version, lineage, digests, files.
    at_us := old.from_us;
    FOR cut IN
        SELECT r.from_us, r.to_us FROM jsonb_to_recordset(by) AS r (from_us bigint, to_us bigint)
        WHERE r.from_us < old.to_us AND r.to_us > old.from_us
        UNION ALL SELECT old.to_us, old.to_us
        ORDER BY 1
    LOOP
        IF cut.from_us > at_us THEN
            SELECT count(*) FILTER (WHERE b < at_us) + 1, count(*) FILTER (WHERE b < cut.from_us)
            INTO first, past FROM unnest(old.bucket_us) AS b;
            INSERT INTO medusa.segment (line_id, from_us, to_us, stability, generation, version,
                begin_version, plan, commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a,
                sum_b, file_ids)
            VALUES (old.line_id, at_us, cut.from_us, old.stability, old.generation, old.version,
                by_version, old.plan, old.commit_id, old.age_ms, old.missing,
                old.bucket_us[first:past], old.bucket_rows[first:past], old.sum_a[first:past],
                old.sum_b[first:past], CASE WHEN first <= past THEN old.file_ids ELSE '{}' END);
        END IF;
        at_us := greatest(at_us, cut.to_us);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.supersede(bigint, bigint, jsonb) IS
    'End a tentative row at a version; the parts that no range covers live on as rows.';

CREATE FUNCTION medusa.guard_lineage() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.recall) THEN
        RETURN NULL;
    END IF;
    SELECT n.input, r.from_us INTO bad
    FROM fresh AS n
    JOIN medusa.stream_producer AS p
        ON (p.stream, p.participant, p.replica) = (n.input, n.participant, n.replica)
    JOIN medusa.recall AS r
        ON r.line_id = p.line_id AND r.version > n.read_version AND r.from_us < n.to_us
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% was recalled from % on since it was read: read again and decide anew',
            bad.input, bad.from_us USING ERRCODE = 'MD002';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.guard_lineage() IS
    'Nothing is computed any more from what was recalled: a step under way is refused.';
CREATE TRIGGER guard_recalled AFTER INSERT ON medusa.lineage
    REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_lineage();

CREATE FUNCTION medusa.key_now(sent text, streams jsonb, participant text, replica integer)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.recall) THEN
        RETURN sent;
    END IF;
    RETURN sent || coalesce((
        SELECT string_agg('@' || p.generation, '' ORDER BY p.stream)
        FROM medusa.stream_producer AS p
        WHERE p.generation > 1 AND p.stream IN (SELECT jsonb_object_keys(key_now.streams))
            AND (p.participant, p.replica) = (key_now.participant, key_now.replica)), '');
END $$;
COMMENT ON FUNCTION medusa.key_now(text, jsonb, text, integer) IS
    'The key of a commit in the generations that its lines have now: what was recalled and is '
    'computed again from the same is another commit.';

-- Its plans are kept per connection, maybe from when the tables were small: no scan even then.
CREATE FUNCTION medusa.commit_step(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    asked    record;
    made     medusa.commit;
    line     record;
    part     record;
    old      record;
    parts    jsonb;
    olds     bigint[];
    clock    timestamptz;
    chain    bytea;
    sent     text;
    past_us  bigint;
    begin_us bigint;
    at_us    bigint;
    end_at   bigint;
    old_id   bigint;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, cause medusa.cause, ends boolean,
        streams jsonb, lineage jsonb, quarantine jsonb, metrics jsonb);

    -- 1 The same key committed before? Its answer again.
    sent := asked.key;
    asked.key := medusa.key_now(sent, asked.streams, asked.participant, asked.replica);
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = asked.key;
    IF FOUND THEN
        RETURN medusa.answer(made, true);
    END IF;

    -- 2 Lock the lease (S8). Who had it may have committed this very key before letting go.
    PERFORM FROM medusa.lease AS l
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
        (asked.fragment, asked.partition, asked.participant, asked.replica, asked.lane)
    FOR UPDATE;
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = asked.key;
    IF FOUND THEN
        RETURN medusa.answer(made, true);
    END IF;
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    -- What is imported was computed under its producer's plan, whichever that is.
    IF NOT EXISTS (SELECT FROM medusa.assignment AS a
        WHERE a.fragment = asked.fragment AND a.partition = asked.partition
            AND a.plan = asked.plan AND a.epoch <= asked.epoch)
        AND NOT (asked.replica = -1 AND asked.cause = 'import'
            AND EXISTS (SELECT FROM medusa.plan AS p WHERE p.id = asked.plan))
    THEN
        RAISE EXCEPTION 'fragment % was never assigned under plan %: deploy the plan first',
            asked.fragment, asked.plan USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_writes(asked.fragment, stream)
    FROM jsonb_object_keys(asked.streams) AS stream;
    -- The columns would round a sum in silence.
    IF EXISTS (
        SELECT FROM jsonb_each(asked.streams) AS s (stream, parts),
            jsonb_to_recordset(s.parts) AS r (sum_a numeric[], sum_b numeric[]),
            unnest(r.sum_a || r.sum_b) AS n
        WHERE n <> trunc(n))
    THEN
        RAISE EXCEPTION 'fragment % gives a sum of hashes that is no integer: give it exactly',
            asked.fragment USING ERRCODE = 'MD001';
    END IF;

    -- 3 Lock the lines in one order and number them.
    SELECT jsonb_object_agg(l.stream, l.last_version + 1), min(l.from_us), max(l.to_us)
    INTO made.versions, made.from_us, made.to_us
    FROM (
        SELECT p.stream, p.last_version,
            (SELECT min((s->>'from_us')::bigint) FROM jsonb_array_elements(asked.streams->p.stream) s)
                AS from_us,
            (SELECT max((s->>'to_us')::bigint) FROM jsonb_array_elements(asked.streams->p.stream) s)
                AS to_us
        FROM medusa.stream_producer AS p
        WHERE p.stream IN (SELECT jsonb_object_keys(asked.streams))
            AND (p.participant, p.replica) = (asked.participant, asked.replica)
        ORDER BY p.stream
        FOR UPDATE OF p
    ) AS l;
    PERFORM medusa.refuse_without_line(stream, asked.participant, asked.replica)
    FROM jsonb_object_keys(asked.streams) AS stream
    WHERE (made.versions ? stream) IS NOT TRUE;
    -- The lines may have been waited for: the lease may have ended, or a newer epoch come (S8).
    clock := medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    asked.key := medusa.key_now(sent, asked.streams, asked.participant, asked.replica);
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    VALUES (asked.key, asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.plan, asked.cause, made.from_us, made.to_us, made.versions,
        clock)
    RETURNING * INTO made;

    FOR line IN
        SELECT p.*, s.width_us, (made.versions->>p.stream)::bigint AS version
        FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
        WHERE p.stream IN (SELECT jsonb_object_keys(asked.streams))
            AND (p.participant, p.replica) = (asked.participant, asked.replica)
        ORDER BY p.stream
    LOOP
        parts := asked.streams->line.stream;

        -- 4 Supersede overlapped tentative rows; what is final stays (S2, S3).
        past_us := NULL;
        begin_us := NULL;
        olds := '{}';
        FOR part IN
            SELECT * FROM jsonb_to_recordset(parts) AS r
                (from_us bigint, to_us bigint, stability medusa.stability)
            ORDER BY r.from_us, r.to_us
        LOOP
            IF part.from_us % line.width_us <> 0 OR part.to_us % line.width_us <> 0 THEN
                RAISE EXCEPTION 'segment [%, %) of % is not on its grid: give multiples of % us',
                    part.from_us, part.to_us, line.stream, line.width_us USING ERRCODE = 'MD001';
            END IF;
            IF part.from_us < past_us THEN
                RAISE EXCEPTION 'segment [%, %) of % overlaps another of the same commit: '
                    'cut them apart', part.from_us, part.to_us, line.stream
                    USING ERRCODE = 'MD001';
            END IF;
            IF part.from_us < line.origin_us OR part.to_us > line.end_us THEN
                RAISE EXCEPTION 'segment [%, %) of % lies outside of its life [%, %): '
                    'compute what lies inside', part.from_us, part.to_us, line.stream,
                    line.origin_us, coalesce(line.end_us::text, 'open') USING ERRCODE = 'MD001';
            END IF;
            begin_us := coalesce(begin_us, part.from_us);
            past_us := part.to_us;
            -- Live rows do not overlap: all that end inside, and at most one that ends behind.
            FOR old IN
                SELECT s.segment_id, s.stability, s.from_us, s.to_us FROM medusa.segment AS s
                WHERE s.line_id = line.line_id AND s.end_version IS NULL
                    AND s.to_us > part.from_us AND s.to_us < part.to_us
                UNION ALL
                SELECT * FROM (
                    SELECT s.segment_id, s.stability, s.from_us, s.to_us FROM medusa.segment AS s
                    WHERE s.line_id = line.line_id AND s.end_version IS NULL
                        AND s.to_us >= part.to_us
                    ORDER BY s.to_us LIMIT 1
                ) AS last
                WHERE last.from_us < part.to_us
            LOOP
                IF old.stability <> 'tentative' OR part.stability = 'tentative' THEN
                    RAISE EXCEPTION 'segment [%, %) of % stands as % over [%, %): '
                        'read again and decide anew', part.from_us, part.to_us, line.stream,
                        old.stability, old.from_us, old.to_us USING ERRCODE = 'MD002';
                END IF;
                IF old.segment_id <> ALL (olds) THEN
                    olds := olds || old.segment_id;
                END IF;
            END LOOP;
        END LOOP;
        FOREACH old_id IN ARRAY olds LOOP
            PERFORM medusa.supersede(old_id, line.version, parts);
        END LOOP;

        -- 5 Write segments and files, and move the boundary (S1).
        INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version,
            plan, commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
        SELECT line.line_id, r.from_us, r.to_us, r.stability, line.version, line.version,
            asked.plan, made.commit_id, greatest(medusa.to_ms(clock) - r.fresh_ms, 0), r.missing,
            r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b,
            medusa.record_files(line.stream, r.files)
        FROM jsonb_to_recordset(parts) AS r
            (from_us bigint, to_us bigint, stability medusa.stability, fresh_ms bigint,
             missing text[], bucket_us bigint[], bucket_rows bigint[], sum_a numeric[],
             sum_b numeric[], files jsonb);
        at_us := coalesce(line.boundary_us, begin_us);
        LOOP
            SELECT s.from_us, s.to_us INTO old FROM medusa.segment AS s
            WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            ORDER BY s.to_us LIMIT 1;
            EXIT WHEN NOT FOUND OR old.from_us > at_us;
            at_us := old.to_us;
        END LOOP;
        IF FOUND AND line.generation > 1 THEN
            RAISE EXCEPTION '% was recalled and stands at %: read again and decide anew',
                line.stream, at_us USING ERRCODE = 'MD002';
        END IF;
        end_at := line.end_us;
        IF asked.ends AND at_us < forever THEN
            IF FOUND OR at_us < end_at THEN
                RAISE EXCEPTION 'stream % cannot end at %: compute what is missing before its end',
                    line.stream, at_us USING ERRCODE = 'MD001';
            END IF;
            end_at := at_us;
        END IF;
        UPDATE medusa.stream_producer AS p
        SET last_version = line.version,
            origin_us = coalesce(p.origin_us, begin_us),
            boundary_us = CASE WHEN at_us >= end_at THEN forever ELSE at_us END,
            end_us = end_at
        WHERE p.line_id = line.line_id;
        -- Whatever may differ when the same is computed again stays out of the chain.
        SELECT medusa.chain_at(line.line_id, line.last_version) || sha256(convert_to(
            made.key || jsonb_agg(p - '{files,fresh_ms}'::text[])::text, 'UTF8'))
        INTO chain FROM jsonb_array_elements(parts) AS p;
        INSERT INTO medusa.line_version (line_id, version, chain)
        VALUES (line.line_id, line.version, sha256(chain));
    END LOOP;
    INSERT INTO medusa.lineage (commit_id, output, position, input, participant, replica, from_us,
        to_us, read_version, drop_rate, content)
    SELECT made.commit_id, r.* FROM ROWS FROM (jsonb_to_recordset(asked.lineage) AS
        (output text, position integer, input text, participant text, replica integer,
         from_us bigint, to_us bigint, read_version bigint, drop_rate double precision,
         content text)) AS r;
    PERFORM medusa.put_aside(asked.quarantine, made.commit_id, NULL);
    INSERT INTO medusa.step_metrics (commit_id, records_in, records_out, spark_jobs, phases_ms)
    SELECT made.commit_id, m.* FROM jsonb_to_record(asked.metrics) AS m
        (records_in bigint, records_out bigint, spark_jobs integer, phases_ms jsonb);

    PERFORM pg_notify('medusa_progress', '');  -- heard after the commit, several as one
    RETURN medusa.answer(made, false);
END $$;
COMMENT ON FUNCTION medusa.commit_step(jsonb) IS
    'One step''s results in one piece: the numbers are those of design 7.5 and of the interface.';

CREATE FUNCTION medusa.commit_steps(requests jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one     record;
    answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(requests)]);
    state   text;
    said    text;
BEGIN
    PERFORM medusa.lock_leases(requests);
    FOR one IN
        SELECT w.value AS request, w.ordinality AS i
        FROM jsonb_array_elements(requests) WITH ORDINALITY AS w
        ORDER BY w.value->>'fragment' COLLATE "C", w.value->>'partition', w.ordinality
    LOOP
        BEGIN
            answers[one.i] := medusa.commit_step(one.request);
        EXCEPTION WHEN OTHERS THEN
            -- What this one wrote is undone; what the others wrote is not.
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
            answers[one.i] := jsonb_build_object('sqlstate', state, 'message', said);
        END;
    END LOOP;
    RETURN to_jsonb(answers);
END $$;
COMMENT ON FUNCTION medusa.commit_steps(jsonb) IS
    'Several commits, each whole or not at all; for each its answer, or the error that refused it.';

CREATE FUNCTION medusa.record_transition(
    fragment text, partition integer, participant text, replica integer, state text, because text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was text;
BEGIN
    PERFORM FROM medusa.fragment AS f WHERE f.id = record_transition.fragment FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fragment % is not deployed here: deploy its network first',
            record_transition.fragment USING ERRCODE = 'MD001';
    END IF;
    SELECT t.state INTO was FROM medusa.transition AS t
    WHERE (t.fragment, t.partition, t.participant, t.replica) = (record_transition.fragment,
        record_transition.partition, record_transition.participant, record_transition.replica)
    ORDER BY t.transition_id DESC LIMIT 1;
    IF coalesce(was, 'STABLE') = record_transition.state THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.transition (fragment, partition, participant, replica, state, because)
    VALUES (record_transition.fragment, record_transition.partition, record_transition.participant,
        record_transition.replica, record_transition.state, record_transition.because);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.record_transition(text, integer, text, integer, text, text) IS
    'Note that a fragment came into another state; the same state again is nothing.';

CREATE FUNCTION medusa.place_hold(
    stream text, holder text, purpose text, from_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = place_hold.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: hold one that is', place_hold.stream
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms)
    VALUES (place_hold.stream, place_hold.holder, place_hold.purpose, place_hold.from_us,
        place_hold.limit_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = excluded.from_us, limit_ms = excluded.limit_ms, placed_at = clock_timestamp();
END $$;
COMMENT ON FUNCTION medusa.place_hold(text, text, text, bigint, bigint) IS
    'Keep buckets from one on; the same holder and purpose moves its hold.';

CREATE FUNCTION medusa.release_hold(stream text, holder text, purpose text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa.hold AS h
    WHERE h.stream = release_hold.stream AND h.holder = release_hold.holder
        AND h.purpose = release_hold.purpose
$$;
COMMENT ON FUNCTION medusa.release_hold(text, text, text) IS
    'Give a hold up; nothing if there is none.';

CREATE FUNCTION medusa.declare_retention(stream text, retention_ms bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_retention.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_retention.stream USING ERRCODE = 'MD001';
    END IF;
    IF declare_retention.retention_ms <= 0 THEN
        RAISE EXCEPTION 'stream % cannot be kept for % ms: give a time above 0, or none for good',
            declare_retention.stream, declare_retention.retention_ms USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, retention_ms)
    VALUES (declare_retention.stream, declare_retention.retention_ms)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET retention_ms = excluded.retention_ms, declared_at = clock_timestamp()
    WHERE p.retention_ms IS DISTINCT FROM excluded.retention_ms;
END $$;
COMMENT ON FUNCTION medusa.declare_retention(text, bigint) IS
    'Say how long a stream is kept, NULL for good; the same again is nothing.';

CREATE FUNCTION medusa.declare_bound(
    stream text, bound_ms bigint, during_failure text, during_stabilization text,
    failure_ms_max bigint, lag_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_bound.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_bound.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p
        (stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms)
    VALUES (declare_bound.stream, declare_bound.bound_ms, declare_bound.during_failure,
        declare_bound.during_stabilization, declare_bound.failure_ms_max, declare_bound.lag_ms)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET bound_ms = excluded.bound_ms, during_failure = excluded.during_failure,
        during_stabilization = excluded.during_stabilization,
        failure_ms_max = excluded.failure_ms_max, lag_ms = excluded.lag_ms,
        declared_at = clock_timestamp()
    WHERE (p.bound_ms, p.during_failure, p.during_stabilization, p.failure_ms_max, p.lag_ms)
        IS DISTINCT FROM (excluded.bound_ms, excluded.during_failure,
            excluded.during_stabilization, excluded.failure_ms_max, excluded.lag_ms);
END $$;
COMMENT ON FUNCTION medusa.declare_bound(text, bigint, text, text, bigint, bigint) IS
    'Say within which bound a stream answers, NULL for none, and how; the same again is nothing.';

CREATE FUNCTION medusa.declare_verify(stream text, verify_count integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_verify.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_verify.stream USING ERRCODE = 'MD001';
    END IF;
    IF (declare_verify.verify_count > 0) IS NOT TRUE THEN
        RAISE EXCEPTION 'stream % cannot be verified by % producers: give 1 or more',
            declare_verify.stream, declare_verify.verify_count USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, verify_count)
    VALUES (declare_verify.stream, declare_verify.verify_count)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET verify_count = excluded.verify_count, declared_at = clock_timestamp()
    WHERE p.verify_count <> excluded.verify_count;
END $$;
COMMENT ON FUNCTION medusa.declare_verify(text, integer) IS
    'Say how many producers must agree before a row is final here; the same again is nothing.';


-- Several producers of one stream: what is read of them ---------------------------------------------

CREATE FUNCTION medusa.commit_choice(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    asked  record;
    line   medusa.stream_producer;
    one    record;
    answer jsonb;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        fragment text, partition integer, participant text, replica integer, lane medusa.lane,
        epoch bigint, holder text, stream text, commits jsonb, divergences jsonb, compared jsonb,
        end_us bigint);

    -- 1 Lock the lease (S8), which is of this stream's import.
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    IF (asked.fragment = 'import/' || asked.stream AND asked.replica = -1) IS NOT TRUE THEN
        RAISE EXCEPTION 'fragment % does not choose among the producers of %: take the lease of '
            'import/%', asked.fragment, asked.stream, asked.stream USING ERRCODE = 'MD001';
    END IF;

    -- 2 Commit the rows.
    FOR one IN
        SELECT w.value AS request FROM jsonb_array_elements(asked.commits) WITH ORDINALITY AS w
        ORDER BY w.ordinality
    LOOP
        IF (one.request->>'fragment', one.request->>'cause')
            IS DISTINCT FROM (asked.fragment, 'import')
        THEN
            RAISE EXCEPTION 'a choice of % holds a commit of %: commit that by itself',
                asked.fragment, one.request->>'fragment' USING ERRCODE = 'MD001';
        END IF;
        answer := medusa.commit_step(one.request);
    END LOOP;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) = (asked.stream, asked.participant, -1)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.participant, -1);
    END IF;

    -- 3 Note divergences.
    INSERT INTO medusa.divergence (stream, bucket_us, plan, participant, replica, version, rows,
        sum_a, sum_b, other_participant, other_replica, other_version, other_rows, other_sum_a,
        other_sum_b)
    SELECT asked.stream, d.* FROM jsonb_to_recordset(asked.divergences) AS d (
        bucket_us bigint, plan text, participant text, replica integer, version bigint,
        rows bigint, sum_a numeric, sum_b numeric, other_participant text, other_replica integer,
        other_version bigint, other_rows bigint, other_sum_a numeric, other_sum_b numeric)
    ON CONFLICT DO NOTHING;

    -- 4 Move how far lines have been compared; what was recalled meanwhile has not been.
    UPDATE medusa.stream_producer AS p
    SET compared_us = least(greatest(p.compared_us, c.compared_us),
        CASE WHEN p.generation > 1 THEN p.boundary_us END)
    FROM jsonb_to_recordset(asked.compared) AS c
        (participant text, replica integer, compared_us bigint)
    WHERE (p.stream, p.participant, p.replica) = (asked.stream, c.participant, c.replica);

    -- 5 End the line (S1).
    IF asked.end_us IS NOT NULL AND line.end_us IS NULL THEN
        IF line.boundary_us IS DISTINCT FROM asked.end_us THEN
            RAISE EXCEPTION 'stream % cannot end at % here, it stands at %: read again and decide '
                'anew', asked.stream, asked.end_us, line.boundary_us USING ERRCODE = 'MD002';
        END IF;
        UPDATE medusa.stream_producer AS p SET end_us = asked.end_us, boundary_us = forever
        WHERE p.line_id = line.line_id;
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN answer;
END $$;
COMMENT ON FUNCTION medusa.commit_choice(jsonb) IS
    'What was chosen among a stream''s producers, and found out with it: the numbers are those of '
    'the interface.';


-- Trimming: what no hold needs goes ------------------------------------------------------------------

CREATE FUNCTION medusa.remove_trimmed(line medusa.stream_producer, segments_max integer)
RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    width    bigint;
    ids      bigint[];
    others   bigint[];
    files    bigint[];
    removed  bigint;
    row_sum  bigint;
    released jsonb;
BEGIN
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = line.stream;
    SELECT array_agg(t.segment_id) INTO ids FROM (
        SELECT s.segment_id FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us <= line.trimmed_us
        ORDER BY s.to_us LIMIT remove_trimmed.segments_max) AS t;
    SELECT array_agg(t.segment_id) INTO others FROM (
        SELECT s.segment_id FROM medusa.segment AS s
        WHERE s.end_version IS NOT NULL AND s.to_us <= line.trimmed_us
            AND int8range(s.line_id, s.line_id, '[]') && int8range(line.line_id, line.line_id, '[]')
            AND int8range(s.from_us, s.to_us) && int8range(NULL, line.trimmed_us)
        LIMIT remove_trimmed.segments_max - coalesce(cardinality(ids), 0)) AS t;
    WITH gone AS (
        DELETE FROM medusa.segment AS s WHERE s.segment_id = ANY (ids || others)
        RETURNING s.end_version, s.row_count, s.file_ids
    )
    SELECT count(*), coalesce(sum(g.row_count) FILTER (WHERE g.end_version IS NULL), 0),
        (SELECT array_agg(DISTINCT f) FROM gone, unnest(gone.file_ids) AS f)
    INTO removed, row_sum, files FROM gone AS g;
    WITH freed AS (
        SELECT b.batch_no, b.file_id FROM medusa.landed_batch AS b
        WHERE b.line_id = line.line_id AND b.file_id IS NOT NULL
            AND line.trimmed_us IS NOT NULL AND NOT EXISTS (
            SELECT FROM medusa.landed_bucket AS k
            WHERE k.line_id = b.line_id AND k.batch_no = b.batch_no
                AND k.bucket_us > line.trimmed_us - width)
    ), let_go AS (
        UPDATE medusa.landed_batch AS b SET file_id = NULL FROM freed
        WHERE b.batch_no = freed.batch_no RETURNING freed.file_id
    )
    SELECT files || array_agg(l.file_id) INTO files FROM let_go AS l;
    -- A landed file may be of several lines, which are trimmed at the same time.
    PERFORM FROM medusa.file AS f WHERE f.file_id = ANY (files) ORDER BY f.file_id FOR UPDATE;
    WITH gone AS (
        DELETE FROM medusa.file AS f
        WHERE f.file_id = ANY (files)
            AND NOT EXISTS (SELECT FROM medusa.segment AS s
                WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0)
            AND NOT EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = f.file_id)
        RETURNING f.path, f.size_bytes, f.sha256, f.rows
    )
    SELECT jsonb_agg(jsonb_build_array(g.path, g.size_bytes, g.sha256, g.rows) ORDER BY g.path)
    INTO released FROM gone AS g;
    RETURN jsonb_build_object('segments', removed, 'rows', row_sum, 'files', released,
        'has_more', removed >= remove_trimmed.segments_max);
END $$;
COMMENT ON FUNCTION medusa.remove_trimmed(medusa.stream_producer, integer) IS
    'Remove rows of a line that are trimmed, at most so many segments, and what only they named.';

CREATE FUNCTION medusa.trim_line(
    stream text, participant text, replica integer, before_us bigint, needed jsonb,
    segments_max integer, explain boolean
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    line    medusa.stream_producer;
    width   bigint;
    readers text[];
    at_us   bigint;
    stop    record;
    answer  jsonb;
BEGIN
    -- 1 Wait until no hold is being placed, so that none is meanwhile; only then lock the line.
    BEGIN
        PERFORM FROM medusa.stream_order AS o WHERE o.stream = trim_line.stream FOR NO KEY UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'a hold on % is being placed: trim again when that has ended',
            trim_line.stream USING ERRCODE = 'MD002';
    END;
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = trim_line.stream;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream % is not deployed here: trim one that is', trim_line.stream
            USING ERRCODE = 'MD001';
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (trim_line.stream, trim_line.participant, trim_line.replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(trim_line.stream, trim_line.participant,
            trim_line.replica);
    END IF;

    BEGIN
        -- 2 Hold what this home's own fragments need; one that does not say needs everything.
        SELECT coalesce(array_agg(DISTINCT n.fragment), '{}') INTO readers
        FROM (
            SELECT DISTINCT ON (a.fragment, a.partition, a.replica) a.fragment, a.participant
            FROM medusa.assignment AS a JOIN medusa.fragment AS f ON f.id = a.fragment
            WHERE trim_line.stream = ANY (f.inputs)
            ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC
        ) AS n JOIN medusa.home AS h ON h.participant = n.participant;
        DELETE FROM medusa.hold AS h
        WHERE h.stream = trim_line.stream AND h.purpose = 'progress' AND h.holder <> ALL (readers);
        INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us)
        SELECT trim_line.stream, r, 'progress', (trim_line.needed->>r)::bigint
        FROM unnest(readers) AS r WHERE trim_line.needed ? r
        ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
        SET from_us = excluded.from_us, limit_ms = NULL, placed_at = clock_timestamp()
        WHERE (h.from_us, h.limit_ms) IS DISTINCT FROM (excluded.from_us, NULL::bigint);
        INSERT INTO medusa.hold (stream, holder, purpose, from_us)
        SELECT trim_line.stream, r, 'progress', -9223372036854775808 FROM unnest(readers) AS r
        ON CONFLICT ON CONSTRAINT hold_pkey DO NOTHING;

        -- 3 Find how far it may go, and what stops it there.
        SELECT s.* INTO stop FROM (
            (SELECT h.from_us, h.holder, h.purpose, h.placed_at, h.limit_ms FROM medusa.hold AS h
            WHERE h.stream = trim_line.stream AND medusa.is_held(h)
            ORDER BY h.from_us, h.holder, h.purpose LIMIT 1)
            UNION ALL
            (SELECT t.from_us, NULL, 'tentative', NULL, NULL FROM medusa.segment AS t
            WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
            ORDER BY t.to_us LIMIT 1)
            UNION ALL
            SELECT coalesce(least(line.boundary_us, line.end_us), -9223372036854775808), NULL,
                'boundary', NULL, NULL
            UNION ALL
            SELECT medusa.chosen_through(line.stream), NULL, 'choice', NULL, NULL
            WHERE line.replica >= 0 AND medusa.chosen_through(line.stream) IS NOT NULL
        ) AS s
        ORDER BY s.from_us, s.purpose, s.holder LIMIT 1;
        at_us := least(trim_line.before_us, stop.from_us);
        IF at_us > line.origin_us AND at_us > coalesce(line.trimmed_us, line.origin_us) THEN
            at_us := at_us - ((at_us % width) + width) % width;  -- down, below zero too
            IF at_us > coalesce(line.trimmed_us, line.origin_us) THEN
                UPDATE medusa.stream_producer AS p SET trimmed_us = at_us
                WHERE p.line_id = line.line_id;
            END IF;
        END IF;

        -- 4 Remove what is trimmed now, or was and is still there.
        answer := jsonb_build_object('from_us', line.trimmed_us, 'held_by', CASE
            WHEN stop.from_us < trim_line.before_us THEN jsonb_build_object(
                'holder', stop.holder, 'purpose', stop.purpose, 'from_us', stop.from_us,
                'since_ms', medusa.to_ms(stop.placed_at), 'limit_ms', stop.limit_ms) END);
        SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
        answer := answer || jsonb_build_object('trimmed_us', line.trimmed_us)
            || medusa.remove_trimmed(line, trim_line.segments_max);
        IF trim_line.explain THEN
            RAISE EXCEPTION 'only asked for' USING ERRCODE = 'MDASK';
        END IF;
    EXCEPTION WHEN SQLSTATE 'MDASK' THEN
        NULL;  -- what was done in this block is undone
    END;
    RETURN answer;
END $$;
COMMENT ON FUNCTION medusa.trim_line(text, text, integer, bigint, jsonb, integer, boolean) IS
    'Trim a line as far as nothing holds it: the numbers are those of the interface.';

CREATE FUNCTION medusa.compact_line(
    stream text, participant text, replica integer, segments jsonb, file jsonb
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line     medusa.stream_producer;
    ids      bigint[];
    row_sum  bigint;
    olds     bigint[];
    new_id   bigint;
    released jsonb;
BEGIN
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (compact_line.stream, compact_line.participant, compact_line.replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(compact_line.stream, compact_line.participant,
            compact_line.replica);
    END IF;
    SELECT array_agg(s.segment_id), sum(s.row_count) INTO ids, row_sum
    FROM jsonb_to_recordset(compact_line.segments) AS r
        (from_us bigint, to_us bigint, version bigint)
    JOIN medusa.segment AS s ON s.line_id = line.line_id AND s.end_version IS NULL
        AND s.to_us = r.to_us AND s.from_us = r.from_us AND s.version = r.version
    WHERE s.stability <> 'tentative' AND s.bucket_count > 0;
    IF cardinality(ids) IS DISTINCT FROM jsonb_array_length(compact_line.segments) THEN
        RAISE EXCEPTION 'the segments of % to be compacted are not all there, final and with rows: '
            'read again', compact_line.stream USING ERRCODE = 'MD002';
    END IF;
    IF row_sum IS DISTINCT FROM (compact_line.file->>'rows')::bigint THEN
        RAISE EXCEPTION 'file % has % rows, the segments of % have %: write their rows',
            compact_line.file->>'path', compact_line.file->>'rows', compact_line.stream, row_sum
            USING ERRCODE = 'MD001';
    END IF;
    SELECT array_agg(DISTINCT f) INTO olds
    FROM medusa.segment AS s, unnest(s.file_ids) AS f WHERE s.segment_id = ANY (ids);
    new_id := (medusa.record_files(compact_line.stream, jsonb_build_array(compact_line.file)))[1];
    UPDATE medusa.segment AS s SET file_ids = ARRAY[new_id]
    WHERE s.segment_id = ANY (ids) AND s.file_ids <> ARRAY[new_id];
    WITH gone AS (
        DELETE FROM medusa.file AS f
        WHERE f.file_id = ANY (olds)
            AND NOT EXISTS (SELECT FROM medusa.segment AS s
                WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0)
            AND NOT EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = f.file_id)
        RETURNING f.path, f.size_bytes, f.sha256, f.rows
    )
    SELECT jsonb_agg(jsonb_build_array(g.path, g.size_bytes, g.sha256, g.rows) ORDER BY g.path)
    INTO released FROM gone AS g;
    RETURN coalesce(released, '[]');
END $$;
COMMENT ON FUNCTION medusa.compact_line(text, text, integer, jsonb, jsonb) IS
    'Let final segments name one file with the same rows; returns the files that nothing names.';


-- Sinks: the copy of what targets say ---------------------------------------------------------------

CREATE FUNCTION medusa.declare_sink(
    stream text, name text, document text, from_us bigint, through_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF declare_sink.name !~ '^[a-z][a-z0-9_]{0,62}$' THEN
        RAISE EXCEPTION 'a sink is named by small letters, digits and _, beginning with a letter'
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_sink.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deliver one that is', declare_sink.stream
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.sink AS s (stream, name, document, from_us, through_us)
    VALUES (declare_sink.stream, declare_sink.name, declare_sink.document, declare_sink.from_us,
        declare_sink.through_us)
    ON CONFLICT ON CONSTRAINT sink_pkey DO UPDATE
    SET document = excluded.document, from_us = excluded.from_us,
        through_us = excluded.through_us, problem = NULL, declared_at = clock_timestamp();
    PERFORM medusa.place_hold(declare_sink.stream, 'sink:' || declare_sink.name, 'delivery',
        coalesce(declare_sink.through_us, declare_sink.from_us), declare_sink.limit_ms);
END $$;
COMMENT ON FUNCTION medusa.declare_sink(text, text, text, bigint, bigint, bigint) IS
    'Say where a stream is delivered, from when on; what it has yet to deliver is held.';

CREATE FUNCTION medusa.withdraw_sink(stream text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM medusa.sink AS s
    WHERE (s.stream, s.name) = (withdraw_sink.stream, withdraw_sink.name);
    PERFORM medusa.release_hold(withdraw_sink.stream, 'sink:' || withdraw_sink.name, 'delivery');
END $$;
COMMENT ON FUNCTION medusa.withdraw_sink(text, text) IS
    'Deliver there no more; nothing if there is no such sink.';

CREATE FUNCTION medusa.record_delivery(
    stream text, name text, document text, through_us bigint, version bigint, rows bigint,
    lost_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.sink AS s
    SET through_us = record_delivery.through_us, version = record_delivery.version,
        rows = record_delivery.rows, lost_us = record_delivery.lost_us, problem = NULL,
        delivered_at = clock_timestamp()
    WHERE (s.stream, s.name, s.document) =
        (record_delivery.stream, record_delivery.name, record_delivery.document);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'sink % of % was withdrawn or declared anew meanwhile: look again',
            record_delivery.name, record_delivery.stream USING ERRCODE = 'MD002';
    END IF;
    PERFORM medusa.place_hold(record_delivery.stream, 'sink:' || record_delivery.name, 'delivery',
        record_delivery.through_us, record_delivery.limit_ms);
END $$;
COMMENT ON FUNCTION
    medusa.record_delivery(text, text, text, bigint, bigint, bigint, bigint, bigint) IS
    'Copy how far a target says it has come, and hold from there.';

CREATE FUNCTION medusa.record_sink_problem(
    stream text, name text, document text, problem text
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE medusa.sink AS s SET problem = left(record_sink_problem.problem, 2000)
    WHERE (s.stream, s.name, s.document) = (record_sink_problem.stream, record_sink_problem.name,
            record_sink_problem.document)
        AND s.problem IS DISTINCT FROM left(record_sink_problem.problem, 2000)
$$;
COMMENT ON FUNCTION medusa.record_sink_problem(text, text, text, text) IS
    'Say why a sink does not go on, or with NULL that it does.';

CREATE FUNCTION medusa.place_cursor(
    stream text, name text, participant text, replica integer, from_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    line medusa.stream_producer;
BEGIN
    IF (place_cursor.name ~ '^[a-z][a-z0-9_]{0,62}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'a cursor is named by small letters, digits and _, beginning with a letter'
            USING ERRCODE = 'MD001';
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (place_cursor.stream, place_cursor.participant, place_cursor.replica);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nobody writes stream % here as %/%: read a stream that is deployed',
            place_cursor.stream, place_cursor.participant, place_cursor.replica
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.cursor AS c (stream, name, line_id, incarnation, from_us)
    SELECT line.stream, place_cursor.name, line.line_id, h.incarnation, place_cursor.from_us
    FROM medusa.home AS h
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cursor % of % is there already: go on with it, or drop it first',
            place_cursor.name, place_cursor.stream USING ERRCODE = 'MD002';
    END IF;
    -- The hold waits for a trim that is being made; what is left then stays.
    PERFORM medusa.place_hold(line.stream, 'cursor:' || place_cursor.name, 'changes',
        place_cursor.from_us, place_cursor.limit_ms);
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
    IF line.trimmed_us > line.origin_us AND place_cursor.from_us < line.trimmed_us THEN
        RAISE EXCEPTION 'stream % is trimmed before % us: begin there, or at a later bucket',
            line.stream, line.trimmed_us USING ERRCODE = 'MD007';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.place_cursor(text, text, text, integer, bigint, bigint) IS
    'Place a cursor before all changes of the buckets from from_us on; what it needs is held.';

CREATE FUNCTION medusa.move_cursor(stream text, name text, version bigint, limit_ms bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    at   medusa.cursor;
    line medusa.stream_producer;
    seen medusa.line_version;
BEGIN
    SELECT c.* INTO at FROM medusa.cursor AS c
    WHERE (c.stream, c.name) = (move_cursor.stream, move_cursor.name) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream % has no cursor %: place it by asking for its changes',
            move_cursor.stream, move_cursor.name USING ERRCODE = 'MD001';
    END IF;
    IF at.incarnation <> (SELECT h.incarnation FROM medusa.home AS h) OR at.chain <> (
        SELECT v.chain FROM medusa.line_version AS v
        WHERE (v.line_id, v.version) = (at.line_id, at.version))
    THEN
        RAISE EXCEPTION 'cursor % of % stands in a past that this home no longer has: drop it and '
            'begin anew, with an empty target', at.name, at.stream USING ERRCODE = 'MD006';
    END IF;
    IF (move_cursor.version >= at.version) IS NOT TRUE THEN
        RAISE EXCEPTION 'cursor % of % stands at version %: it does not go back to %', at.name,
            at.stream, at.version, move_cursor.version USING ERRCODE = 'MD001';
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = at.line_id;
    IF move_cursor.version > line.last_version THEN
        RAISE EXCEPTION 'version % of % is not there yet, the newest is %: move the cursor to one '
            'that was read', move_cursor.version, at.stream, line.last_version
            USING ERRCODE = 'MD001';
    END IF;
    SELECT v.* INTO seen FROM medusa.line_version AS v
    WHERE (v.line_id, v.version) = (at.line_id, move_cursor.version);
    -- Versions from before chains were kept have no row; a partner's came several at once.
    IF NOT FOUND AND move_cursor.version > at.version AND EXISTS (
        SELECT FROM medusa.line_version AS v
        WHERE v.line_id = at.line_id AND v.version < move_cursor.version)
    THEN
        RAISE EXCEPTION 'version % of % was never read here: move the cursor to the version of an '
            'answer', move_cursor.version, at.stream USING ERRCODE = 'MD001';
    END IF;
    UPDATE medusa.cursor AS c
    SET version = move_cursor.version, chain = seen.chain, moved_at = clock_timestamp()
    WHERE (c.stream, c.name) = (at.stream, at.name);
    PERFORM medusa.place_hold(at.stream, 'cursor:' || at.name, 'changes',
        greatest(at.from_us, least(seen.stable_us, (
            SELECT min(r.from_us) FROM medusa.recall AS r
            WHERE r.line_id = at.line_id AND r.version > move_cursor.version))),
        move_cursor.limit_ms);
END $$;
COMMENT ON FUNCTION medusa.move_cursor(text, text, bigint, bigint) IS
    'The changes up to a version are applied: hold from where the stable prefix ended at it.';

CREATE FUNCTION medusa.drop_cursor(stream text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM medusa.cursor AS c
    WHERE (c.stream, c.name) = (drop_cursor.stream, drop_cursor.name);
    PERFORM medusa.release_hold(drop_cursor.stream, 'cursor:' || drop_cursor.name, 'changes');
END $$;
COMMENT ON FUNCTION medusa.drop_cursor(text, text) IS
    'Forget a cursor and let go of what it held; nothing if there is none.';


-- Recall: the one way out of what is final, an operator's -------------------------------------------

CREATE FUNCTION medusa.recall_closure(root integer, begins_us bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found jsonb := jsonb_build_object(root, begins_us);
    todo  integer[] := ARRAY[root];
    line  record;
    other record;
    at_us bigint;
BEGIN
    WHILE cardinality(todo) > 0 LOOP
        SELECT p.line_id, p.stream, p.participant, p.replica,
            p.participant = h.participant AS is_own INTO line
        FROM medusa.stream_producer AS p CROSS JOIN medusa.home AS h WHERE p.line_id = todo[1];
        at_us := (found->>(todo[1]::text))::bigint;
        todo := todo[2:];
        FOR other IN
            -- The outputs of a fragment advance together, so they begin again together.
            SELECT o.line_id, at_us - (at_us % w.width_us + w.width_us) % w.width_us AS from_us
            FROM medusa.fragment AS f
            CROSS JOIN LATERAL (
                SELECT max(s.width_us) AS width_us FROM medusa.stream AS s
                WHERE s.name = ANY (f.outputs)) AS w
            JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs)
                AND (o.participant, o.replica) = (line.participant, line.replica)
            WHERE line.is_own AND line.replica >= 0 AND line.stream = ANY (f.outputs)
                AND f.id NOT LIKE 'import/%'
            UNION ALL
            -- Whatever has a row that was computed from what is taken back.
            SELECT o.line_id, at_us - (at_us % s.width_us + s.width_us) % s.width_us
            FROM medusa.home AS h
            CROSS JOIN medusa.fragment AS f
            JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs)
                AND o.participant = h.participant
            JOIN medusa.stream AS s ON s.name = o.stream
            WHERE (line.stream = ANY (f.inputs) OR f.id = 'import/' || line.stream)
                AND o.line_id <> line.line_id
                AND EXISTS (
                    SELECT FROM medusa.segment AS t
                    JOIN medusa.lineage AS l ON l.commit_id = t.commit_id AND l.output = o.stream
                    WHERE t.line_id = o.line_id AND t.end_version IS NULL AND t.to_us > at_us
                        AND (l.input, l.participant, l.replica) =
                            (line.stream, line.participant, line.replica)
                        AND l.to_us > at_us)
        LOOP
            IF (other.from_us >= (found->>(other.line_id::text))::bigint) IS NOT TRUE THEN
                found := found || jsonb_build_object(other.line_id, other.from_us);
                todo := todo || other.line_id;
            END IF;
        END LOOP;
    END LOOP;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa.recall_closure(integer, bigint) IS
    'Line -> from when on it goes, of all in this home that is computed from a line''s rows from a '
    'bucket on, the line included: over the wiring, where lineage says that it was read.';

CREATE FUNCTION medusa.lock_own_lines() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM medusa.stream_producer AS p
    WHERE p.participant = (SELECT h.participant FROM medusa.home AS h)
    ORDER BY p.stream, p.participant, p.replica FOR UPDATE;
END $$;
COMMENT ON FUNCTION medusa.lock_own_lines() IS
    'Nothing is committed in this home until the transaction has ended.';

CREATE FUNCTION medusa.settle(by medusa.recall) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.divergence_settled (divergence_id, recall_id)
    SELECT d.divergence_id, by.recall_id
    FROM medusa.divergence AS d JOIN medusa.stream_producer AS p ON p.stream = d.stream
    WHERE p.line_id = by.line_id AND d.bucket_us >= by.from_us
        AND ((d.participant, d.replica) = (p.participant, p.replica)
            OR (d.other_participant, d.other_replica) = (p.participant, p.replica))
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.settle(medusa.recall) IS
    'What a producer has taken back nobody disputes; what it has instead is compared anew.';

CREATE FUNCTION medusa.kept_from(line_id integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.gone_us + ((k.width_us - k.gone_us % k.width_us) % k.width_us)
    FROM (
        SELECT max(o.trimmed_us) FILTER (WHERE o.trimmed_us > o.origin_us) AS gone_us,
            max(s.width_us) AS width_us
        FROM medusa.stream_producer AS p
        CROSS JOIN medusa.home AS h
        JOIN medusa.stream_producer AS o ON o.line_id = p.line_id
            OR p.participant = h.participant AND p.replica >= 0
                AND (o.participant, o.replica) = (p.participant, p.replica)
                AND EXISTS (
                    SELECT FROM medusa.fragment AS f
                    WHERE p.stream = ANY (f.outputs) AND o.stream = ANY (f.outputs)
                        AND f.id NOT LIKE 'import/%')
        JOIN medusa.stream AS s ON s.name = o.stream
        WHERE p.line_id = kept_from.line_id
    ) AS k
$$;
COMMENT ON FUNCTION medusa.kept_from(integer) IS
    'From when on a line and what its fragment writes beside it are kept, on the widest grid; NULL: '
    'nothing of them is trimmed.';

CREATE FUNCTION medusa.recall_line(line_id integer, from_us bigint, because text, who text)
RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line  record;
    made  medusa.recall;
    olds  bigint[];
    taken bigint;
    cut   jsonb;
BEGIN
    SELECT p.*, s.kind INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.line_id = recall_line.line_id;
    SELECT array_agg(t.segment_id), coalesce(sum((
        SELECT sum(b.n) FROM unnest(t.bucket_us, t.bucket_rows) AS b (at_us, n)
        WHERE b.at_us >= recall_line.from_us)), 0)
    INTO olds, taken FROM medusa.segment AS t
    WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.to_us > recall_line.from_us;
    IF olds IS NULL THEN
        RETURN NULL;  -- nothing of it lies behind
    END IF;
    INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version)
    VALUES (line.line_id, line.generation + 1, greatest(recall_line.from_us, line.origin_us),
        recall_line.because, recall_line.who, line.last_version + 1)
    RETURNING * INTO made;
    cut := jsonb_build_array(jsonb_build_object('from_us', made.from_us,
        'to_us', 9223372036854775807));
    PERFORM medusa.supersede(old, made.version, cut) FROM unnest(olds) AS old;
    -- What is computed ends anew; a source ends where it said, and its landed records close again.
    UPDATE medusa.stream_producer AS p
    SET generation = made.generation, last_version = made.version,
        boundary_us = least(p.boundary_us, made.from_us),
        end_us = CASE WHEN line.kind = 'source' THEN p.end_us END,
        compared_us = least(p.compared_us, made.from_us)
    WHERE p.line_id = line.line_id;
    PERFORM medusa.settle(made);
    INSERT INTO medusa.line_version (line_id, version, chain)
    SELECT line.line_id, made.version, sha256(medusa.chain_at(line.line_id, line.last_version)
        || sha256(convert_to('recall ' || made.generation || ' ' || made.from_us, 'UTF8')));
    PERFORM pg_notify('medusa_progress', '');
    RETURN jsonb_build_object('stream', line.stream, 'participant', line.participant,
        'replica', line.replica, 'generation', made.generation, 'from_us', made.from_us,
        'version', made.version, 'because', made.because, 'who', made.who,
        'recalled_at_ms', medusa.to_ms(made.recalled_at), 'segments', cardinality(olds),
        'rows', taken);
END $$;
COMMENT ON FUNCTION medusa.recall_line(integer, bigint, text, text) IS
    'Take back what a line of this home has from a bucket on, and begin its next generation.';

CREATE FUNCTION medusa.check_reason(because text, who text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (char_length(because) <= 1000 AND char_length(who) <= 200
        AND btrim(because) <> '' AND btrim(who) <> ''
        AND because || who !~ '[[:cntrl:]]') IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a recall says why in one line of 1 to 1,000 characters, and who in 200'
            USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_reason(text, text) IS
    'Raises unless why and who are there, short, and one line each.';

CREATE FUNCTION medusa.recall(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    asked record;
    line  record;
    again jsonb;
    one   record;
    done  jsonb;
    plan  jsonb := '[]';
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (stream text, participant text,
        replica integer, from_us bigint, because text, who text, follows integer, needed jsonb,
        stays jsonb, explain boolean);
    PERFORM medusa.check_reason(asked.because, asked.who);

    -- 1 May it be?
    SELECT p.*, s.kind, s.width_us, p.participant = h.participant AS is_own INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    CROSS JOIN medusa.home AS h
    WHERE (p.stream, p.participant, p.replica) = (asked.stream, asked.participant, asked.replica);
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.participant, asked.replica);
    END IF;
    IF line.is_own <> (asked.follows IS NULL) THEN
        RAISE EXCEPTION 'the line of % by %/% is %', asked.stream, asked.participant, asked.replica,
            CASE WHEN line.is_own THEN 'written here: recall it, there is nobody to follow'
            ELSE 'a partner''s: let the partner recall it, and follow' END USING ERRCODE = 'MD001';
    END IF;
    IF (asked.from_us % line.width_us = 0) IS NOT TRUE THEN
        RAISE EXCEPTION '% cannot be recalled from % on, off its grid: give a multiple of % us',
            asked.stream, asked.from_us, line.width_us USING ERRCODE = 'MD001';
    END IF;
    IF (asked.from_us >= line.origin_us) IS NOT TRUE THEN
        RAISE EXCEPTION '% begins at %: recall it from there on, or later', asked.stream,
            coalesce(line.origin_us::text, 'no time yet') USING ERRCODE = 'MD001';
    END IF;

    BEGIN
        -- 2 Hold what is to be read again; holds come before locks of lines, as in a trim.
        again := medusa.recall_closure(line.line_id, asked.from_us);
        PERFORM FROM medusa.stream_order AS o
        WHERE o.stream IN (
            SELECT p.stream FROM jsonb_object_keys(again) AS k
            JOIN medusa.stream_producer AS p ON p.line_id = k::integer
            UNION SELECT i.stream FROM jsonb_each(asked.needed) AS f (id, inputs),
                jsonb_object_keys(f.inputs) AS i (stream))
        ORDER BY o.stream FOR SHARE;
        UPDATE medusa.hold AS h SET from_us = least(h.from_us, k.value::bigint)
        FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
            ON p.line_id = k.key::integer
        WHERE h.stream = p.stream AND h.purpose IN ('import', 'changes', 'delivery')
            AND h.from_us > k.value::bigint;
        FOR one IN
            SELECT i.stream, min(i.at_us::bigint) AS from_us
            FROM jsonb_each(asked.needed) AS f (id, inputs),
                jsonb_each_text(f.inputs) AS i (stream, at_us)
            GROUP BY i.stream ORDER BY i.stream
        LOOP
            PERFORM medusa.place_hold(one.stream, 'recall', 'recall', one.from_us, 86400000);
        END LOOP;

        -- 3 Nothing is committed from here on; look again.
        IF NOT line.is_own THEN
            PERFORM FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id FOR UPDATE;
        END IF;
        PERFORM medusa.lock_own_lines();
        IF again <> medusa.recall_closure(line.line_id, asked.from_us) THEN
            RAISE EXCEPTION 'more was computed of % while it was looked at: recall it again',
                asked.stream USING ERRCODE = 'MD002';
        END IF;

        -- 4 Is all of it there, and can be computed again?
        -- What comes behind goes as far as it is kept; a partner's recall asks nobody how far.
        IF line.is_own AND asked.from_us < medusa.kept_from(line.line_id) THEN
            RAISE EXCEPTION '% is trimmed before % and cannot be computed again from % on: recall '
                'from a later bucket, such as %', asked.stream, medusa.kept_from(line.line_id),
                asked.from_us, medusa.kept_from(line.line_id) USING ERRCODE = 'MD001';
        END IF;
        FOR one IN
            SELECT i.stream, i.at_us::bigint AS from_us, f.id, (
                SELECT min(CASE WHEN p.trimmed_us > p.origin_us THEN p.trimmed_us
                    ELSE -9223372036854775808 END)
                FROM medusa.stream_producer AS p WHERE p.stream = i.stream) AS kept_us
            FROM jsonb_each(asked.needed) AS f (id, inputs),
                jsonb_each_text(f.inputs) AS i (stream, at_us)
        LOOP
            IF one.from_us < one.kept_us THEN
                RAISE EXCEPTION '% reads % from % on to compute again, which is trimmed before %: '
                    'recall from a later bucket', one.id, one.stream, one.from_us, one.kept_us
                    USING ERRCODE = 'MD001';
            END IF;
        END LOOP;

        -- 5 Take it back, and say so; a partner's is taken back when its news comes.
        IF asked.follows IS NOT NULL THEN
            IF asked.follows <= line.generation THEN
                RAISE EXCEPTION 'the line of % by % is followed to generation % already',
                    asked.stream, asked.participant, line.generation USING ERRCODE = 'MD001';
            END IF;
            INSERT INTO medusa.recall_follow (line_id, generation, from_us, because, who, stays)
            VALUES (line.line_id, asked.follows, asked.from_us, asked.because, asked.who,
                coalesce(asked.stays, '{}'));
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        FOR one IN
            SELECT p.line_id, greatest(k.value::bigint, medusa.kept_from(p.line_id),
                CASE WHEN p.line_id <> line.line_id THEN (asked.stays->>p.stream)::bigint END)
                AS from_us
            FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
                ON p.line_id = k.key::integer
            ORDER BY p.line_id <> line.line_id, p.stream, p.participant, p.replica
        LOOP
            IF asked.follows IS NULL THEN
                done := medusa.recall_line(one.line_id, one.from_us, asked.because, asked.who);
            ELSE
                done := medusa.told_recall(one.line_id, one.from_us,
                    CASE WHEN one.line_id = line.line_id THEN asked.follows END, asked.because,
                    asked.who);
            END IF;
            IF done IS NULL AND one.line_id = line.line_id THEN
                RAISE EXCEPTION '% reaches to % only: there is nothing to recall from % on',
                    asked.stream, line.boundary_us, asked.from_us USING ERRCODE = 'MD001';
            END IF;
            plan := plan || coalesce(done, '[]');
        END LOOP;
        IF asked.explain THEN
            RAISE EXCEPTION 'only asked for' USING ERRCODE = 'MDASK';
        END IF;
    EXCEPTION WHEN SQLSTATE 'MDASK' THEN
        NULL;  -- what was done in this block is undone
    END;
    RETURN plan;
END $$;
COMMENT ON FUNCTION medusa.recall(jsonb) IS
    'Take back what a line has from a bucket on and all in this home that was computed from it, in '
    'one piece, or agree to a partner''s recall: the numbers are those of the interface.';

CREATE FUNCTION medusa.told_recall(
    line_id integer, from_us bigint, generation integer, because text, who text
) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('stream', p.stream, 'participant', p.participant,
        'replica', p.replica, 'generation', coalesce(told_recall.generation, p.generation + 1),
        'from_us', greatest(told_recall.from_us, p.origin_us), 'version', p.last_version + 1,
        'because', told_recall.because, 'who', told_recall.who, 'recalled_at_ms', 0,
        'segments', count(t.segment_id), 'rows', coalesce(sum((
            SELECT sum(b.n) FROM unnest(t.bucket_us, t.bucket_rows) AS b (at_us, n)
            WHERE b.at_us >= told_recall.from_us)), 0))
    FROM medusa.stream_producer AS p JOIN medusa.segment AS t ON t.line_id = p.line_id
    WHERE p.line_id = told_recall.line_id AND t.end_version IS NULL
        AND t.to_us > told_recall.from_us
    GROUP BY p.line_id
$$;
COMMENT ON FUNCTION medusa.told_recall(integer, bigint, integer, text, text) IS
    'What a recall of a line would take back; NULL if nothing lies behind.';

CREATE FUNCTION medusa.follow_recalls(
    line_id integer, recalls jsonb, version bigint, segments jsonb, refusal text
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line    medusa.stream_producer;
    agreed  medusa.recall_follow;
    again   jsonb;
    one     record;
    last    integer;
    k_us    bigint;
BEGIN
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE p.line_id = follow_recalls.line_id;
    SELECT max(r.generation), min(r.from_us) INTO last, k_us
    FROM jsonb_to_recordset(recalls) AS r (generation integer, from_us bigint)
    WHERE r.generation > line.generation;

    -- 1 What was read, and is kept, is taken back only if the operator of this home agreed.
    IF EXISTS (SELECT FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL
            AND t.to_us > greatest(k_us, line.trimmed_us))
    THEN
        SELECT f.* INTO agreed FROM medusa.recall_follow AS f
        WHERE f.line_id = line.line_id AND f.generation = last
            AND f.from_us <= k_us
        ORDER BY f.follow_id DESC LIMIT 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION '%', coalesce(refusal, 'a partner recalled what is final here')
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.lock_own_lines();
        again := medusa.recall_closure(line.line_id, k_us) - line.line_id::text;
    END IF;
    FOR one IN
        SELECT * FROM jsonb_to_recordset(recalls) AS r
            (generation integer, from_us bigint, version bigint, because text)
        WHERE r.generation > line.generation ORDER BY r.generation
    LOOP
        PERFORM medusa.check_reason(one.because, line.participant);
        INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version)
        VALUES (line.line_id, one.generation, one.from_us, one.because, line.participant,
            one.version);
    END LOOP;

    -- 2 The copy ends there. What the partner keeps of a row that is cut comes with its news.
    UPDATE medusa.segment AS t SET end_version = coalesce((
        SELECT r.end_version FROM jsonb_to_recordset(segments) AS r
            (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
        WHERE (r.from_us, r.to_us, r.begin_version) = (t.from_us, t.to_us, t.begin_version)
            AND r.end_version IS NOT NULL LIMIT 1), follow_recalls.version)
    WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.to_us > k_us;
    UPDATE medusa.stream_producer AS p
    SET generation = last,
        boundary_us = CASE WHEN agreed.follow_id IS NULL THEN p.boundary_us
            ELSE least(p.boundary_us, greatest(p.origin_us, p.trimmed_us, (
                SELECT t.to_us FROM medusa.segment AS t
                WHERE t.line_id = p.line_id AND t.end_version IS NULL
                ORDER BY t.to_us DESC LIMIT 1))) END,
        end_us = NULL,
        compared_us = least(p.compared_us, k_us)
    WHERE p.line_id = line.line_id;
    PERFORM medusa.settle(r) FROM medusa.recall AS r
    WHERE r.line_id = line.line_id AND r.generation > line.generation;

    -- 3 All in this home that was computed from it goes with it, as far as it is kept and can be
    -- computed again.
    FOR one IN
        SELECT p.line_id, greatest(k.value::bigint, medusa.kept_from(p.line_id),
            (agreed.stays->>p.stream)::bigint) AS from_us
        FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
            ON p.line_id = k.key::integer
        ORDER BY p.stream, p.participant, p.replica
    LOOP
        PERFORM medusa.recall_line(one.line_id, one.from_us, agreed.because, agreed.who);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.follow_recalls(integer, jsonb, bigint, jsonb, text) IS
    'Take back what a partner''s news takes back, with all that was computed from it here, if the '
    'operator of this home agreed or nothing of it was read.';

-- The exchange: what a partner may see of a line, and what a home keeps of a partner's --------------

CREATE FUNCTION medusa.record_certificate(request jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked  record;
    number bigint;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (stream text, participant text,
        replica integer, version bigint, suite text, law text, from_us bigint, to_us bigint,
        passed boolean, figures jsonb, engines jsonb, quarantined bigint);
    IF NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE (p.stream, p.participant, p.replica) =
            (asked.stream, asked.participant, asked.replica))
    THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.participant, asked.replica);
    END IF;
    INSERT INTO medusa.certificate (stream, participant, replica, version, suite, law, from_us,
        to_us, passed, figures, engines, quarantined)
    VALUES (asked.stream, asked.participant, asked.replica, asked.version, asked.suite, asked.law,
        asked.from_us, asked.to_us, asked.passed, asked.figures, asked.engines, asked.quarantined)
    RETURNING certificate_id INTO number;
    RETURN number;
END $$;
COMMENT ON FUNCTION medusa.record_certificate(jsonb) IS
    'Write down what a check found; the number of the certificate.';

CREATE FUNCTION medusa.declare_source(stream text, document text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s
        WHERE s.name = declare_source.stream AND s.kind = 'source')
    THEN
        RAISE EXCEPTION '% is no source that is deployed here: deploy its network first',
            declare_source.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.source AS s (stream, document)
    VALUES (declare_source.stream, declare_source.document)
    ON CONFLICT ON CONSTRAINT source_pkey DO UPDATE
    SET document = excluded.document, declared_at = clock_timestamp()
    WHERE s.document <> excluded.document;
END $$;
COMMENT ON FUNCTION medusa.declare_source(text, text) IS
    'Say how a source is fed; the same again is nothing.';

CREATE FUNCTION medusa.line_news(
    stream text, participant text, replica integer, after bigint, segments_max integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line record;
    upto bigint;
    first bigint;
    gone bigint;
    again bigint;
BEGIN
    SELECT p.line_id, p.last_version, p.origin_us, p.end_us,
        coalesce(p.trimmed_us, -9223372036854775808) AS trimmed_us INTO line
    FROM medusa.stream_producer AS p
    WHERE p.stream = line_news.stream AND p.participant = line_news.participant
        AND p.replica = line_news.replica;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(line_news.stream, line_news.participant,
            line_news.replica);
    END IF;
    IF line_news.after > line.last_version THEN
        RAISE EXCEPTION 'the line of % by %/% stands at %, before %: its home was set back, '
            'call its operator', line_news.stream, line_news.participant, line_news.replica,
            line.last_version, line_news.after USING ERRCODE = 'MD006';
    END IF;
    -- A page ends with a whole version, and holds one at least.
    SELECT min(p.begin_version), max(p.begin_version) FILTER (WHERE p.i > line_news.segments_max)
    INTO first, upto
    FROM (
        SELECT s.begin_version, row_number() OVER (ORDER BY s.begin_version) AS i
        FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.begin_version > line_news.after
            AND s.to_us > line.trimmed_us  -- before it all counts as gone, removed or not yet
        ORDER BY s.begin_version LIMIT line_news.segments_max + 1
    ) AS p;
    upto := CASE WHEN upto IS NULL THEN line.last_version ELSE greatest(upto - 1, first) END;
    -- What a later page takes back is not told first.
    SELECT coalesce(min(r.from_us), 9223372036854775807) INTO again FROM medusa.recall AS r
    WHERE r.line_id = line.line_id AND r.version > upto;
    -- What reaches over the place and comes, or ends, with a later page is not lost.
    IF line.trimmed_us > -9223372036854775808 THEN
        SELECT least(line.trimmed_us, min(s.from_us)) INTO gone
        FROM (
            (SELECT t.from_us, t.begin_version AS changed FROM medusa.segment AS t
            WHERE t.line_id = line.line_id AND t.end_version IS NULL
                AND t.to_us > line.trimmed_us
            ORDER BY t.to_us LIMIT 1)
            UNION ALL
            SELECT t.from_us, t.end_version FROM medusa.segment AS t
            WHERE t.end_version IS NOT NULL AND t.to_us > line.trimmed_us
                AND int8range(t.line_id, t.line_id, '[]')
                    && int8range(line.line_id, line.line_id, '[]')
                AND int8range(t.from_us, t.to_us)
                    && int8range(line.trimmed_us - 1, line.trimmed_us)
        ) AS s
        WHERE s.changed > upto;
    END IF;
    RETURN jsonb_build_object(
        'version', upto,
        'origin_us', line.origin_us,
        'end_us', CASE WHEN upto = line.last_version THEN line.end_us END,
        'trimmed_us', gone,
        'chain_after', (
            SELECT encode(v.chain, 'hex') FROM medusa.line_version AS v
            WHERE (v.line_id, v.version) = (line.line_id, line_news.after)),
        'chain', (
            SELECT encode(v.chain, 'hex') FROM medusa.line_version AS v
            WHERE (v.line_id, v.version) = (line.line_id, upto)),
        'segments', (
            SELECT jsonb_agg(jsonb_build_object('from_us', s.from_us, 'to_us', s.to_us,
                'stability', s.stability, 'version', s.version, 'begin_version', s.begin_version,
                'end_version', CASE WHEN s.end_version <= upto THEN s.end_version END,
                'plan', s.plan, 'missing', s.missing,
                -- Only durations cross between participants: how old it is now, by this clock.
                'age_ms', s.age_ms + greatest(medusa.to_ms(clock_timestamp()) - (
                    SELECT medusa.to_ms(c.committed_at) FROM medusa.commit AS c
                    WHERE c.commit_id = s.commit_id), 0),
                'bucket_us', s.bucket_us, 'bucket_rows', s.bucket_rows,
                'sum_a', array_to_string(s.sum_a, ','), 'sum_b', array_to_string(s.sum_b, ','),
                'files', (
                    SELECT jsonb_agg(jsonb_build_array(f.path, f.size_bytes, f.sha256, f.rows)
                        ORDER BY u.i)
                    FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
                    JOIN medusa.file AS f ON f.file_id = u.file_id)
                ) ORDER BY s.begin_version, s.from_us)
            FROM (
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us AND t.to_us <= again
                    AND (t.end_version IS NULL OR t.end_version > upto)
                UNION ALL
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.end_version > line_news.after
                    AND t.end_version <= upto AND t.begin_version <= line_news.after
                    AND t.to_us > line.trimmed_us AND t.to_us <= again
            ) AS s),
        'recalls', (
            SELECT jsonb_agg(jsonb_build_object('generation', r.generation, 'from_us', r.from_us,
                'version', r.version, 'because', r.because) ORDER BY r.generation)
            FROM medusa.recall AS r
            WHERE r.line_id = line.line_id AND r.version > line_news.after),
        'plans', (
            SELECT jsonb_agg(jsonb_build_object('id', p.id, 'network', p.network,
                'document', p.document) ORDER BY p.id)
            FROM medusa.plan AS p
            WHERE p.id IN (SELECT t.plan FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us)));
END $$;
COMMENT ON FUNCTION medusa.line_news(text, text, integer, bigint, integer) IS
    'For partners: what became live or was superseded of a line after a version, page by page.';

CREATE FUNCTION medusa.acknowledge(
    stream text, reader text, through_us bigint, limit_ms bigint, path_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF acknowledge.reader !~ '^[a-z][a-z0-9_]{0,62}$' THEN
        RAISE EXCEPTION 'a reader is named like a participant, by small letters, digits and _'
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = acknowledge.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: acknowledge one that is',
            acknowledge.stream USING ERRCODE = 'MD001';
    END IF;
    -- A hold never moves back and always has a limit, so neither may be beyond reason.
    IF (acknowledge.limit_ms BETWEEN 1 AND 31 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION 'a reader holds for 1 ms to 31 days, not for % ms', acknowledge.limit_ms
            USING ERRCODE = 'MD001';
    END IF;
    IF (acknowledge.path_ms BETWEEN 0 AND 31 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION 'a path costs 0 ms to 31 days, not % ms', acknowledge.path_ms
            USING ERRCODE = 'MD001';
    END IF;
    IF (acknowledge.through_us <= (SELECT max(p.boundary_us) FROM medusa.stream_producer AS p
        WHERE p.stream = acknowledge.stream)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'stream % does not reach to % yet: acknowledge what there is',
            acknowledge.stream, acknowledge.through_us USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms, path_ms)
    VALUES (acknowledge.stream, acknowledge.reader, 'import', acknowledge.through_us,
        acknowledge.limit_ms, acknowledge.path_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = greatest(h.from_us, excluded.from_us), limit_ms = excluded.limit_ms,
        path_ms = excluded.path_ms, placed_at = clock_timestamp();
END $$;
COMMENT ON FUNCTION medusa.acknowledge(text, text, bigint, bigint, bigint) IS
    'For partners: buckets before through_us are safe with the reader; its hold moves up.';

CREATE FUNCTION medusa.import_line(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    asked record;
    line  record;
    clock timestamptz;
    made  bigint;
    at_us bigint;
    upto  bigint;
    other text;
    final record;
    gaps  jsonb := '[]';
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, stream text,
        from_participant text, from_replica integer, after bigint, version bigint,
        origin_us bigint, end_us bigint, trimmed_us bigint, chain_after text, chain text,
        segments jsonb, plans jsonb, recalls jsonb, refusal text);

    -- 1 The same news brought before?
    IF EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = asked.key) THEN
        RETURN false;
    END IF;

    -- 2 Lock the lease (S8), which is of this stream's import.
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    IF asked.fragment <> 'import/' || asked.stream THEN
        RAISE EXCEPTION 'fragment % does not import %: take the lease of import/%',
            asked.fragment, asked.stream, asked.stream USING ERRCODE = 'MD001';
    END IF;

    -- 3 Lock the line, which is a partner's and stands where the news begins.
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (asked.stream, asked.from_participant, asked.from_replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.from_participant,
            asked.from_replica);
    END IF;
    clock := medusa.check_lease(asked.fragment, asked.partition, asked.participant,
        asked.replica, asked.lane, asked.epoch, asked.holder);  -- the line was waited for
    IF EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = asked.key) THEN
        RETURN false;
    END IF;
    IF line.participant = (SELECT h.participant FROM medusa.home AS h) THEN
        RAISE EXCEPTION 'the line of % is written here: only a partner''s is imported',
            asked.stream USING ERRCODE = 'MD001';
    END IF;
    IF line.last_version <> asked.after OR asked.version < asked.after THEN
        RAISE EXCEPTION 'the line of % by % stands here at %, not at %: ask for its news again',
            asked.stream, asked.from_participant, line.last_version, asked.after
            USING ERRCODE = 'MD002';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.line_version AS v
        WHERE (v.line_id, v.version) = (line.line_id, asked.after)
            AND v.chain <> decode(asked.chain_after, 'hex'))
    THEN
        RAISE EXCEPTION 'the line of % by %/% is not the one that was read up to %: its home was '
            'set back and went on, call its operator', asked.stream, asked.from_participant,
            asked.from_replica, asked.after USING ERRCODE = 'MD006';
    END IF;
    INSERT INTO medusa.network (name, document)
    SELECT p.network, p.document
    FROM jsonb_to_recordset(asked.plans) AS p (id text, network text, document text)
    ON CONFLICT DO NOTHING;
    INSERT INTO medusa.plan (id, network, document)
    SELECT p.id, p.network, p.document
    FROM jsonb_to_recordset(asked.plans) AS p (id text, network text, document text)
    ON CONFLICT DO NOTHING;
    SELECT p.id INTO other
    FROM jsonb_to_recordset(asked.plans) AS p (id text, network text, document text)
    JOIN medusa.plan AS here ON here.id = p.id WHERE here.document <> p.document LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'plan % stands here with another document: a plan is named by its '
            'fingerprint', other USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    SELECT asked.key, asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.plan, 'import',
        coalesce(min(r.from_us), asked.origin_us, 0), coalesce(max(r.to_us), asked.origin_us, 0),
        jsonb_build_object(asked.stream, asked.version), clock
    FROM jsonb_to_recordset(asked.segments) AS r (from_us bigint, to_us bigint)
    RETURNING commit_id INTO made;

    -- What the partner has recalled is taken back first, if the operator of this home agreed.
    IF EXISTS (SELECT FROM jsonb_to_recordset(asked.recalls) AS r (generation integer)
        WHERE r.generation > line.generation)
    THEN
        PERFORM medusa.follow_recalls(line.line_id, asked.recalls, asked.version, asked.segments,
            asked.refusal);
        SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
    END IF;
    -- Of what is recalled later nothing is told; nobody could ever compute from it here.
    IF line.generation > 1 AND EXISTS (
        SELECT FROM medusa.recall AS r, jsonb_to_recordset(asked.segments) AS s
            (to_us bigint, end_version bigint)
        WHERE r.line_id = line.line_id AND r.version > asked.version AND s.end_version IS NULL
            AND s.to_us > r.from_us)
    THEN
        RAISE EXCEPTION 'news of % by %/% up to % holds rows that it says are recalled later: call '
            'the partner''s operator', asked.stream, asked.from_participant, asked.from_replica,
            asked.version USING ERRCODE = 'MD001';
    END IF;

    -- 4 End what was superseded, write what is live. Before this place all is final here.
    SELECT least(line.boundary_us, min(s.from_us)) INTO at_us FROM (
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1) AS s;
    at_us := coalesce(at_us, asked.origin_us);
    UPDATE medusa.segment AS s SET end_version = r.end_version
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND r.end_version IS NOT NULL
        AND (s.from_us, s.to_us, s.begin_version) = (r.from_us, r.to_us, r.begin_version);
    -- Of a tentative row that is trimmed, the end is not told: what took its place shows it.
    UPDATE medusa.segment AS s SET end_version = (
        SELECT min(r.begin_version)
        FROM jsonb_to_recordset(asked.segments) AS r
            (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
        WHERE r.end_version IS NULL AND r.from_us < s.to_us AND r.to_us > s.from_us)
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        AND s.to_us <= asked.trimmed_us AND EXISTS (
            SELECT FROM jsonb_to_recordset(asked.segments) AS r
                (from_us bigint, to_us bigint, end_version bigint)
            WHERE r.end_version IS NULL AND r.from_us < s.to_us AND r.to_us > s.from_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
    SELECT line.line_id, r.from_us, r.to_us, r.stability, r.version, r.begin_version, r.plan, made,
        greatest(medusa.to_ms(clock) - r.fresh_ms, 0), r.missing, r.bucket_us, r.bucket_rows,
        r.sum_a, r.sum_b, medusa.record_files(asked.stream, r.files)
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, stability medusa.stability, version bigint,
         begin_version bigint, end_version bigint, plan text, fresh_ms bigint, missing text[],
         bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[], files jsonb)
    WHERE r.end_version IS NULL
        -- After a recall a partner may tell again what is trimmed here.
        AND (line.generation > 1 AND r.to_us <= line.trimmed_us) IS NOT TRUE;

    -- 5 What the partner has trimmed and is not final here is lost: declare it.
    WHILE at_us < asked.trimmed_us LOOP
        SELECT s.from_us, s.to_us INTO final FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            AND s.stability <> 'tentative'
        ORDER BY s.to_us LIMIT 1;
        upto := least(final.from_us, asked.trimmed_us);
        IF at_us < upto THEN
            gaps := gaps || jsonb_build_object('from_us', at_us, 'to_us', upto);
        END IF;
        at_us := coalesce(final.to_us, asked.trimmed_us);
    END LOOP;
    PERFORM medusa.supersede(s.segment_id, asked.version, gaps)
    FROM medusa.segment AS s
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        AND EXISTS (
            SELECT FROM jsonb_to_recordset(gaps) AS g (from_us bigint, to_us bigint)
            WHERE g.from_us < s.to_us AND g.to_us > s.from_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id)
    SELECT line.line_id, g.from_us, g.to_us, 'gap', asked.version, asked.version, asked.plan, made
    FROM jsonb_to_recordset(gaps) AS g (from_us bigint, to_us bigint);

    -- 6 Move version and boundary (S1).
    at_us := coalesce(line.boundary_us, asked.origin_us);
    LOOP
        SELECT s.to_us INTO upto FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            AND s.from_us <= at_us
        ORDER BY s.to_us LIMIT 1;
        EXIT WHEN NOT FOUND;
        at_us := upto;
    END LOOP;
    UPDATE medusa.stream_producer AS p
    SET last_version = asked.version,
        origin_us = coalesce(p.origin_us, asked.origin_us),
        end_us = coalesce(p.end_us, asked.end_us),
        boundary_us = CASE WHEN at_us >= coalesce(p.end_us, asked.end_us) THEN forever
            ELSE at_us END
    WHERE p.line_id = line.line_id;
    INSERT INTO medusa.line_version (line_id, version, chain)
    SELECT line.line_id, asked.version, decode(asked.chain, 'hex') WHERE asked.chain IS NOT NULL
    ON CONFLICT DO NOTHING;
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.import_line(jsonb) IS
    'Bring a partner''s news of a line into this home: the numbers are those of the interface.';


-- Views for people and partners: seen with the reader's own rights --------------------------------

CREATE VIEW medusa_api.streams WITH (security_invoker = true) AS
SELECT s.name AS stream, s.kind, s.width_us, s.columns, s.key_columns, p.participant, p.replica,
    p.last_version AS version, p.origin_us, p.boundary_us, p.promised_us, p.end_us,
    p.boundary_us = 9223372036854775807 AS has_ended, p.trimmed_us
FROM medusa.stream AS s JOIN medusa.stream_producer AS p ON p.stream = s.name;
COMMENT ON VIEW medusa_api.streams IS 'Every (stream, producer) and how far it has come.';

CREATE VIEW medusa_api.segments WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, s.from_us, s.to_us, s.stability, s.version, s.plan,
    s.row_count, s.bucket_count, s.age_ms, s.missing, s.commit_id
FROM medusa.segment AS s JOIN medusa.stream_producer AS p ON p.line_id = s.line_id
WHERE s.end_version IS NULL;
COMMENT ON VIEW medusa_api.segments IS 'Live segments.';

CREATE VIEW medusa_api.steps WITH (security_invoker = true) AS
SELECT c.commit_id, c.fragment, c.partition, c.participant, c.replica, c.lane, c.epoch, c.plan,
    c.cause, c.from_us, c.to_us, c.versions, c.committed_at, m.records_in, m.records_out,
    m.spark_jobs, m.phases_ms
FROM medusa.commit AS c JOIN medusa.step_metrics AS m ON m.commit_id = c.commit_id;
COMMENT ON VIEW medusa_api.steps IS 'Steps as they were made, and what they cost.';

CREATE VIEW medusa_api.lineage WITH (security_invoker = true) AS
SELECT commit_id, output, position, input, participant, replica, from_us, to_us, read_version,
    drop_rate
FROM medusa.lineage;
COMMENT ON VIEW medusa_api.lineage IS 'What each commit''s outputs were computed from.';

CREATE VIEW medusa_api.quarantine WITH (security_invoker = true) AS
SELECT quarantine_id, stream, origin, position, field, reason, content, commit_id, quarantined_at,
    size_bytes, sha256
FROM medusa.quarantine;
COMMENT ON VIEW medusa_api.quarantine IS 'Records that could not be used.';

CREATE VIEW medusa_api.assignments WITH (security_invoker = true) AS
SELECT fragment, partition, epoch, participant, replica, plan, from_us, assigned_at
FROM medusa.assignment;
COMMENT ON VIEW medusa_api.assignments IS 'The log of who computes what.';

CREATE VIEW medusa_api.leases WITH (security_invoker = true) AS
SELECT fragment, partition, participant, replica, lane, epoch, holder, expires_at,
    expires_at > clock_timestamp() AS is_held
FROM medusa.lease;
COMMENT ON VIEW medusa_api.leases IS 'Who computes now.';

CREATE VIEW medusa_api.holds WITH (security_invoker = true) AS
SELECT stream, holder, purpose, from_us, limit_ms, placed_at, path_ms FROM medusa.hold;
COMMENT ON VIEW medusa_api.holds IS 'What keeps which buckets.';

CREATE VIEW medusa_api.transitions WITH (security_invoker = true) AS
SELECT fragment, partition, participant, replica, state, because, changed_at
FROM medusa.transition;
COMMENT ON VIEW medusa_api.transitions IS
    'When fragments came into UP_FAILURE, STABILIZATION and back into STABLE, and why.';

CREATE VIEW medusa_api.bounds WITH (security_invoker = true) AS
SELECT stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms
FROM medusa.stream_promise;
COMMENT ON VIEW medusa_api.bounds IS 'Within which bound streams answer, and how.';

CREATE VIEW medusa_api.sinks WITH (security_invoker = true) AS
SELECT stream, name, from_us, through_us, version, rows, lost_us, problem, declared_at, delivered_at
FROM medusa.sink;
COMMENT ON VIEW medusa_api.sinks IS 'How far each sink has delivered.';

CREATE VIEW medusa_api.cursors WITH (security_invoker = true) AS
SELECT c.stream, c.name, p.participant, p.replica, c.version, p.last_version, c.from_us,
    c.placed_at, c.moved_at
FROM medusa.cursor AS c JOIN medusa.stream_producer AS p ON p.line_id = c.line_id;
COMMENT ON VIEW medusa_api.cursors IS 'How far consumers have applied the changes of streams.';

CREATE VIEW medusa_api.recalls WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, r.generation, r.from_us, r.because, r.who, r.version,
    r.recalled_at
FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id;
COMMENT ON VIEW medusa_api.recalls IS 'What operators took back, from when on, who and why.';

CREATE VIEW medusa_api.certificates WITH (security_invoker = true) AS
SELECT certificate_id, stream, participant, replica, version, suite, law, from_us, to_us, passed,
    figures, engines, quarantined, certified_at
FROM medusa.certificate;
COMMENT ON VIEW medusa_api.certificates IS 'What checks found, window by window.';

CREATE VIEW medusa_api.divergences WITH (security_invoker = true) AS
SELECT divergence_id, stream, bucket_us, plan, participant, replica, version, rows, sum_a, sum_b,
    other_participant, other_replica, other_version, other_rows, other_sum_a, other_sum_b,
    noticed_at
FROM medusa.divergence AS d
WHERE NOT EXISTS (
    SELECT FROM medusa.divergence_settled AS s WHERE s.divergence_id = d.divergence_id);
COMMENT ON VIEW medusa_api.divergences IS 'Where producers of a stream disagree: those not settled.';

CREATE VIEW medusa_api.disputed WITH (security_invoker = true) AS
WITH RECURSIVE disputed AS (
    SELECT d.stream, min(d.bucket_us) AS from_us FROM medusa_api.divergences AS d GROUP BY d.stream
    UNION
    SELECT s.name, d.from_us - ((d.from_us % s.width_us) + s.width_us) % s.width_us
    FROM disputed AS d
    JOIN medusa.fragment AS f ON d.stream = ANY (f.inputs)
    JOIN medusa.stream AS s ON s.name = ANY (f.outputs)
)
SELECT d.stream, min(d.from_us) AS from_us FROM disputed AS d GROUP BY d.stream;
COMMENT ON VIEW medusa_api.disputed IS
    'From which bucket on streams are disputed: those whose producers disagree, and what is '
    'computed from them here.';

CREATE VIEW medusa_api.published_boundaries WITH (security_invoker = true) AS
SELECT stream, participant, replica, last_version AS version, origin_us, boundary_us, end_us,
    trimmed_us
FROM medusa.stream_producer;
COMMENT ON VIEW medusa_api.published_boundaries IS 'For partners: how far each line has come.';

CREATE VIEW medusa_api.published_segments WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, s.from_us, s.to_us, s.stability, s.generation,
    s.version, s.begin_version, s.end_version, s.plan, s.age_ms, s.missing, s.bucket_us,
    s.bucket_rows, s.sum_a, s.sum_b, s.file_ids
FROM medusa.segment AS s JOIN medusa.stream_producer AS p ON p.line_id = s.line_id;
COMMENT ON VIEW medusa_api.published_segments IS 'For partners: segments and their digests.';

CREATE VIEW medusa_api.published_files WITH (security_invoker = true) AS
SELECT file_id, stream, path, size_bytes, sha256, rows FROM medusa.file;
COMMENT ON VIEW medusa_api.published_files IS 'For partners: files that segments name.';


-- Roles: their names begin with the database's, because they are known to the whole server --------

CREATE FUNCTION medusa.grant_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind  text;
    role  text;
    rights text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'airflow', 'analyst', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        FOREACH rights IN ARRAY CASE kind
            WHEN 'job' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON ALL TABLES IN SCHEMA medusa, medusa_api',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.acquire_lease, medusa.renew_lease, '
                    'medusa.release_lease, medusa.land, medusa.promise, medusa.commit_step, '
                    'medusa.place_hold, medusa.release_hold, medusa.to_ms, '
                    'medusa.declare_source, medusa.line_news, medusa.import_line, '
                    'medusa.acknowledge, medusa.trim_line, medusa.compact_line, '
                    'medusa.declare_retention, medusa.declare_bound, medusa.record_transition, '
                    'medusa.declare_sink, medusa.withdraw_sink, medusa.record_delivery, '
                    'medusa.record_sink_problem, '
                    'medusa.acquire_leases, medusa.renew_leases, medusa.release_leases, '
                    'medusa.land_many, medusa.promise_many, medusa.commit_steps, '
                    'medusa.place_cursor, medusa.move_cursor, medusa.drop_cursor']
            WHEN 'airflow' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.assignment, '
                    'medusa.lease, medusa.commit, medusa.step_metrics, medusa.hold, '
                    'medusa.stream_promise, medusa.sink, medusa.transition, medusa_api.sinks, '
                    'medusa_api.transitions, medusa_api.bounds, '
                    'medusa_api.streams, medusa_api.assignments, medusa_api.leases, '
                    'medusa_api.steps, medusa_api.holds',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.declare_source, '
                    'medusa.declare_retention, medusa.declare_bound, medusa.declare_sink, '
                    'medusa.withdraw_sink']
            WHEN 'analyst' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.segment, '
                    'medusa.file, medusa.commit, medusa.step_metrics, medusa.lineage, '
                    'medusa.quarantine, medusa.assignment, medusa.lease, medusa.hold, '
                    'medusa.stream_promise, medusa.sink, medusa.transition, medusa.cursor, '
                    'medusa.line_version, '
                    'medusa.home, medusa.schema_migration',
                'SELECT ON ALL TABLES IN SCHEMA medusa_api']
            WHEN 'reader' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT (line_id, stream, participant, replica, last_version, origin_us, '
                    'boundary_us, end_us, trimmed_us) ON medusa.stream_producer',
                'SELECT (line_id, from_us, to_us, stability, generation, version, begin_version, '
                    'end_version, plan, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, '
                    'file_ids) ON medusa.segment',
                'SELECT (file_id, stream, path, size_bytes, sha256, rows) ON medusa.file',
                'SELECT ON medusa_api.published_boundaries, medusa_api.published_segments, '
                    'medusa_api.published_files',
                'EXECUTE ON FUNCTION medusa.line_news, medusa.acknowledge']
        END LOOP
            EXECUTE format('GRANT ' || rights || ' TO %I', role);
        END LOOP;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_to_roles() IS
    'Give each role of this home its rights; roles that do not exist are left out.';
SELECT medusa.grant_to_roles();

CREATE FUNCTION medusa.grant_certificates_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.certificate, medusa_api.certificates TO %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.record_certificate TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_certificates_to_roles() IS
    'Jobs write certificates; they, Airflow and analysts read them.';
SELECT medusa.grant_certificates_to_roles();

CREATE FUNCTION medusa.grant_choices_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.divergence, medusa.fragment, medusa_api.divergences, '
            'medusa_api.disputed TO %I', role);
        IF kind <> 'analyst' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.declare_verify TO %I', role);
        END IF;
        IF kind = 'job' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.commit_choice TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_choices_to_roles() IS
    'Jobs choose among producers; they, Airflow and analysts see where producers disagree.';
SELECT medusa.grant_choices_to_roles();

CREATE FUNCTION medusa.grant_recalls_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.recall, medusa.recall_follow, '
            'medusa.divergence_settled, medusa_api.recalls TO %I', role);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_recalls_to_roles() IS
    'Jobs, Airflow and analysts see what was recalled; only the owner recalls.';
SELECT medusa.grant_recalls_to_roles();


-- Agreements: contracts with partners, their signed documents, and what travels about them ---------
--
-- A contract is one document; its SHA-256 is the revision. Each party keeps a copy in its own home
-- and edits it there: an edit is a proposal, the same edit by the other party accepts it. So that
-- two edits at once never make two agreements, the payer signs last: the provider's signature is an
-- offer, which it may take back until it hears of the payer's; the payer signs one revision of each
-- number. A revision is agreed in a home that holds both signatures, and active from its next round.
-- Signatures are made and verified by the participant's own program, before they come here.

CREATE FUNCTION medusa.is_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name ~ '^[a-z][a-z0-9_]{0,62}$' $$;
COMMENT ON FUNCTION medusa.is_name(text) IS
    'Whether a text can name a participant, a contract, a stream or a fragment; NULL of NULL.';

CREATE FUNCTION medusa.at_ms(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (timestamp 'epoch' + make_interval(
        days => (ms / 86400000)::integer, secs => (ms % 86400000) / 1000.0)) AT TIME ZONE 'UTC'
$$;
COMMENT ON FUNCTION medusa.at_ms(bigint) IS 'The time that is so many ms after the epoch, exactly.';

CREATE FUNCTION medusa.subject_range(name text) RETURNS int8range
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN name IS NULL THEN int8range(NULL, NULL) ELSE int8range(h, h, '[]') END
    FROM (SELECT (('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 16))::bit(64)::bigint
        & 4611686018427387903) AS h) AS hashed
$$;
COMMENT ON FUNCTION medusa.subject_range(text) IS
    'A text as a range that overlaps that of the same text only (by 62 bits of SHA-256), and NULL '
    'as one that overlaps all: exclusion constraints need ranges where no extension is.';

CREATE TABLE medusa.party_key (
    key_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    participant text COLLATE "C" NOT NULL,
    public_key  bytea NOT NULL,
    replaces    bigint REFERENCES medusa.party_key,
    because     text NOT NULL,
    learned_by  text NOT NULL DEFAULT session_user,
    learned_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_past     boolean NOT NULL DEFAULT false,
    CONSTRAINT party_key_is_of_a_participant CHECK (medusa.is_name(participant)),
    CONSTRAINT party_key_has_32_bytes CHECK (octet_length(public_key) = 32),
    CONSTRAINT party_key_says_why CHECK (char_length(because) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.party_key IS
    'Ed25519 keys by which this home knows itself and its partners; the newest of each counts, the '
    'older tell what was signed under them; insert-only.';
COMMENT ON COLUMN medusa.party_key.is_past IS
    'It was replaced before this home learned of it: it tells what was signed under it, no more.';
COMMENT ON COLUMN medusa.party_key.replaces IS 'The key before; only the owner replaces one.';
CREATE INDEX party_key_of_participant ON medusa.party_key (participant, key_id);
COMMENT ON INDEX medusa.party_key_of_participant IS 'The newest key of a participant.';

CREATE TABLE medusa.contract_order (
    contract   text COLLATE "C" PRIMARY KEY CHECK (medusa.is_name(contract)),
    edits      bigint NOT NULL DEFAULT 0,
    brought_by text COLLATE "C"
);
COMMENT ON TABLE medusa.contract_order IS
    'A row per contract, changed by whoever edits it or brings a document: one after the other, '
    'and nobody from a snapshot of before.';
COMMENT ON COLUMN medusa.contract_order.brought_by IS
    'The partner that named it here first; NULL: this home.';
CREATE INDEX contract_order_brought ON medusa.contract_order (brought_by);
COMMENT ON INDEX medusa.contract_order_brought IS 'How many contracts a partner has named.';

CREATE TABLE medusa.contract_revision (
    revision      text COLLATE "C" PRIMARY KEY,
    document      bytea NOT NULL,
    contract      text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    supersedes    text COLLATE "C",
    kind          text COLLATE "C" NOT NULL,
    payer         text COLLATE "C" NOT NULL,
    provider      text COLLATE "C" NOT NULL,
    currency      text COLLATE "C" NOT NULL,
    validity      tstzrange NOT NULL,
    settlement_ms bigint NOT NULL,
    notice_ms     bigint NOT NULL,
    price_low     numeric,
    price_high    numeric,
    price_step    numeric,
    fragments     text[] COLLATE "C",
    load_max      numeric,
    billed        text[] COLLATE "C",
    recovery      text COLLATE "C",
    method        text COLLATE "C",
    replicas      bigint,
    bound_ms      bigint,
    penalty       numeric,
    hold_ms_max   bigint,
    stream        text COLLATE "C",
    price         numeric,
    per           text COLLATE "C",
    instead       text COLLATE "C",
    known_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number, revision),
    CONSTRAINT revision_is_the_hash CHECK (revision = encode(sha256(document), 'hex')),
    CONSTRAINT document_is_short CHECK (octet_length(document) <= 65536),
    CONSTRAINT first_alone_supersedes_nothing CHECK ((number = 1) = (supersedes IS NULL)),
    CONSTRAINT number_is_above_zero CHECK (number > 0),
    CONSTRAINT parties_are_two CHECK (payer <> provider),
    CONSTRAINT currency_is_three_capitals CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT validity_is_a_time CHECK (NOT isempty(validity) AND lower_inc(validity)
        AND NOT upper_inc(validity) AND isfinite(lower(validity)) AND isfinite(upper(validity))),
    CONSTRAINT periods_are_durations CHECK (settlement_ms > 0 AND notice_ms >= 0),
    CONSTRAINT kind_has_its_terms CHECK (CASE kind
        WHEN 'movement' THEN num_nonnulls(price_low, price_high, price_step, load_max, billed,
            recovery, method, replicas, penalty, hold_ms_max) = 10
            AND num_nonnulls(stream, price, per, instead) = 0
        WHEN 'content' THEN num_nonnulls(stream, price, per, recovery, method, replicas, penalty,
            hold_ms_max) = 8
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                instead) = 0
        WHEN 'suggested' THEN num_nonnulls(stream, instead) = 2
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                recovery, method, replicas, bound_ms, penalty, hold_ms_max, price, per) = 0
        ELSE false END),
    CONSTRAINT prices_are_a_range CHECK (price_low > 0 AND price_low <= price_high
        AND price_step > 0 AND (price_high - price_low) % price_step = 0
        AND (price_high - price_low) / price_step <= 1000),
    CONSTRAINT promise_is_one CHECK (replicas > 0 AND hold_ms_max > 0
        AND coalesce(bound_ms > 0, true) AND penalty >= 0
        AND recovery IN ('gap', 'rollback', 'precise') AND method IN ('amnesia',
            'passive_standby', 'active_standby', 'upstream_backup'))
);
COMMENT ON TABLE medusa.contract_revision IS
    'What contracts say, revision by revision, proposed or agreed; insert-only. The columns say '
    'what the document says, which a trigger compares.';
COMMENT ON COLUMN medusa.contract_revision.revision IS 'SHA-256 of the document.';
COMMENT ON COLUMN medusa.contract_revision.document IS
    'The canonical bytes that both parties sign: medusa_core/market/documents.py.';
COMMENT ON COLUMN medusa.contract_revision.number IS 'Counts the agreed revisions, from 1 on.';
COMMENT ON COLUMN medusa.contract_revision.supersedes IS 'The revision before; NULL of the first.';
COMMENT ON COLUMN medusa.contract_revision.price_low IS
    'Currency per unit of load and hour: level 0; price_high is the highest level.';
COMMENT ON COLUMN medusa.contract_revision.fragments IS 'What may move; NULL: any of the payer''s.';
COMMENT ON COLUMN medusa.contract_revision.billed IS 'The causes of steps that are paid for.';
COMMENT ON COLUMN medusa.contract_revision.bound_ms IS 'The bound promised; NULL: none is.';
COMMENT ON COLUMN medusa.contract_revision.instead IS 'From whom to buy the stream.';

CREATE FUNCTION medusa.json_list(texts text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN texts IS NULL THEN 'null' ELSE '[' || coalesce((
        SELECT string_agg('"' || t || '"', ',' ORDER BY t COLLATE "C") FROM unnest(texts) AS t
    ), '') || ']' END
$$;
COMMENT ON FUNCTION medusa.json_list(text[]) IS 'Names as a sorted list in JSON.';

CREATE FUNCTION medusa.contract_document(terms medusa.contract_revision) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT convert_to('{"contract":"' || terms.contract || '","currency":"' || terms.currency
        || '","format":"medusa.contract/1","kind":"' || terms.kind
        || '","notice_ms":' || terms.notice_ms || ',"number":' || terms.number
        || ',"payer":"' || terms.payer || '","provider":"' || terms.provider
        || '","settlement_ms":' || terms.settlement_ms || ',"subject":{'
        || CASE WHEN terms.kind = 'suggested' THEN
            '"instead":"' || terms.instead || '","stream":"' || terms.stream || '"'
        ELSE
            '"availability":{"bound_ms":' || coalesce(terms.bound_ms::text, 'null')
            || ',"method":"' || terms.method || '","recovery":"' || terms.recovery
            || '","replicas":' || terms.replicas || '},'
            || CASE terms.kind WHEN 'movement' THEN
                '"billed":' || medusa.json_list(terms.billed)
                || ',"fragments":' || medusa.json_list(terms.fragments)
                || ',"hold_ms_max":' || terms.hold_ms_max
                || ',"load_max":"' || trim_scale(terms.load_max)
                || '","penalty":"' || trim_scale(terms.penalty)
                || '","price_high":"' || trim_scale(terms.price_high)
                || '","price_low":"' || trim_scale(terms.price_low)
                || '","price_step":"' || trim_scale(terms.price_step) || '"'
            ELSE
                '"hold_ms_max":' || terms.hold_ms_max
                || ',"penalty":"' || trim_scale(terms.penalty) || '","per":"' || terms.per
                || '","price":"' || trim_scale(terms.price) || '","stream":"' || terms.stream || '"'
            END
        END || '},"supersedes":' || coalesce('"' || terms.supersedes || '"', 'null')
        || ',"valid_from_ms":' || medusa.to_ms(lower(terms.validity))
        || ',"valid_until_ms":' || medusa.to_ms(upper(terms.validity)) || '}', 'UTF8')
$$;
COMMENT ON FUNCTION medusa.contract_document(medusa.contract_revision) IS
    'The one document of these terms: the bytes that medusa_core/market/documents.py writes.';

CREATE FUNCTION medusa.terms_of(document bytea) RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  jsonb;
    terms  medusa.contract_revision;
BEGIN
    IF (octet_length(document) BETWEEN 2 AND 65536) IS NOT TRUE THEN
        RAISE EXCEPTION 'a contract of % bytes: none is longer than 64 KiB',
            coalesce(octet_length(document), 0) USING ERRCODE = 'MD001';
    END IF;
    given := convert_from(document, 'UTF8')::jsonb;
    SELECT * INTO terms FROM jsonb_populate_record(NULL::medusa.contract_revision,
        given->'subject' || coalesce(given->'subject'->'availability', '{}')
        || (given - ARRAY['subject', 'validity', 'revision', 'document', 'known_at']));
    terms.validity := tstzrange(medusa.at_ms((given->>'valid_from_ms')::bigint),
        medusa.at_ms((given->>'valid_until_ms')::bigint));
    terms.document := terms_of.document;
    terms.revision := encode(sha256(terms_of.document), 'hex');
    terms.known_at := clock_timestamp();
    RETURN terms;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'this is no contract''s document: send one as Medusa writes it'
        USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.terms_of(bytea) IS
    'The columns that a document says; whether it is written as it must be, the table checks.';

CREATE FUNCTION medusa.check_amount(
    what text, amount numeric, lowest numeric DEFAULT 0.000001
) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (amount BETWEEN lowest AND 1000000000000 AND amount = round(amount, 6)) IS NOT TRUE THEN
        RAISE EXCEPTION '% is %: write a number %, 1,000,000,000,000 at most, with six decimal '
            'places at most', what, coalesce(left(amount::text, 60), 'missing'),
            CASE WHEN lowest > 0 THEN 'above 0' ELSE 'from 0' END USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_amount(text, numeric, numeric) IS
    'Refuse an amount that is NULL, too large, too fine or not above 0 (or 0).';

CREATE FUNCTION medusa.check_length(what text, ms bigint, lowest bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (ms >= lowest AND ms < 9007199254740992) IS NOT TRUE THEN
        RAISE EXCEPTION '% is % ms: write a duration, in milliseconds', what,
            coalesce(ms::text, 'missing') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_length(text, bigint, bigint) IS
    'Refuse a duration that is NULL, too short or beyond reason.';

CREATE FUNCTION medusa.check_word(what text, word text, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (word = ANY (known)) IS NOT TRUE THEN
        RAISE EXCEPTION '% is %: write one of %', what, coalesce(quote_literal(left(word, 80)),
            'missing'), array_to_string(known, ', ') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_word(text, text, text[]) IS 'Refuse a word that is none of these.';

CREATE FUNCTION medusa.check_names(VARIADIC names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF medusa.is_name(name) IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name: begin with a lower-case letter, go on with '
                'lower-case letters, digits and _, 63 characters at most',
                coalesce(quote_literal(left(name, 80)), 'NULL') USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.check_names(text[]) IS 'Refuse what is not a name; so is NULL.';

CREATE FUNCTION medusa.is_fragment(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name ~ '^[a-z][a-z0-9_]{0,62}([.][a-z][a-z0-9_]{0,62})?$' $$;
COMMENT ON FUNCTION medusa.is_fragment(text) IS
    'Whether a text can name a fragment in a contract: FRAGMENT or NETWORK.FRAGMENT.';

CREATE FUNCTION medusa.is_fragment_of(name text, part text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name = part OR split_part(name, '.', 2) = part $$;
COMMENT ON FUNCTION medusa.is_fragment_of(text, text) IS
    'Whether a contract may mean the same by two names of a fragment: NETWORK.FRAGMENT is also '
    'what FRAGMENT names.';

CREATE FUNCTION medusa.check_fragments(names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF medusa.is_fragment(name) IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name of a fragment: write FRAGMENT or NETWORK.FRAGMENT, '
                'each beginning with a lower-case letter, with lower-case letters, digits and _',
                coalesce(quote_literal(left(name, 150)), 'NULL') USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.check_fragments(text[]) IS
    'Refuse what names no fragment; so does NULL.';

CREATE FUNCTION medusa.check_terms(terms medusa.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    strange text;
BEGIN
    PERFORM medusa.check_names(terms.contract, terms.payer, terms.provider);
    PERFORM medusa.check_word('the kind of contract ' || terms.contract, terms.kind,
        ARRAY['movement', 'content', 'suggested']);
    IF terms.payer = terms.provider THEN
        RAISE EXCEPTION 'contract % is one of % with itself: name two parties', terms.contract,
            terms.payer USING ERRCODE = 'MD001';
    END IF;
    IF (terms.currency ~ '^[A-Z]{3}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'the currency % of contract % is none: write three capitals, such as EUR',
            coalesce(quote_literal(left(terms.currency, 80)), 'NULL'), terms.contract
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.validity IS NULL OR isempty(terms.validity) OR NOT lower_inc(terms.validity)
        OR upper_inc(terms.validity) OR lower_inf(terms.validity) OR upper_inf(terms.validity)
        OR NOT isfinite(lower(terms.validity)) OR NOT isfinite(upper(terms.validity))
    THEN
        RAISE EXCEPTION 'the validity of contract % is %: write a time with a beginning and a '
            'later end, such as [2026-01-01,2027-01-01)', terms.contract,
            coalesce(quote_literal(terms.validity::text), 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF medusa.at_ms(medusa.to_ms(lower(terms.validity))) <> lower(terms.validity)
        OR medusa.at_ms(medusa.to_ms(upper(terms.validity))) <> upper(terms.validity)
    THEN
        RAISE EXCEPTION 'the validity of contract % is finer than milliseconds: round it',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_length('the settlement period of contract ' || terms.contract,
        terms.settlement_ms, 1);
    PERFORM medusa.check_length('the notice of contract ' || terms.contract, terms.notice_ms, 0);
    IF (terms.number > 0 AND (terms.number = 1) = (terms.supersedes IS NULL)) IS NOT TRUE THEN
        RAISE EXCEPTION 'revision % of contract % supersedes %: the first alone supersedes nothing',
            terms.number, terms.contract, coalesce(terms.supersedes, 'nothing')
            USING ERRCODE = 'MD001';
    END IF;
    strange := CASE terms.kind
        WHEN 'movement' THEN CASE WHEN num_nonnulls(terms.stream, terms.price, terms.per,
            terms.instead) > 0 THEN 'stream, price, per and instead' END
        WHEN 'content' THEN CASE WHEN num_nonnulls(terms.price_low, terms.price_high,
            terms.price_step, terms.fragments, terms.load_max, terms.billed, terms.instead) > 0
            THEN 'price_low, price_high, price_step, fragments, load_max, billed and instead' END
        ELSE CASE WHEN num_nonnulls(terms.price_low, terms.price_high, terms.price_step,
            terms.fragments, terms.load_max, terms.billed, terms.recovery, terms.method,
            terms.replicas, terms.bound_ms, terms.penalty, terms.hold_ms_max, terms.price,
            terms.per) > 0 THEN 'all but stream and instead' END
        END;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'contract % is one of kind %: leave % out', terms.contract, terms.kind,
            strange USING ERRCODE = 'MD001';
    END IF;
    IF terms.kind = 'suggested' THEN
        PERFORM medusa.check_names(terms.stream, terms.instead);
        IF terms.instead IN (terms.payer, terms.provider) THEN
            RAISE EXCEPTION 'contract % suggests to buy from %, a party itself: name a third '
                'participant', terms.contract, terms.instead USING ERRCODE = 'MD001';
        END IF;
        RETURN;
    END IF;
    PERFORM medusa.check_word('the recovery of contract ' || terms.contract, terms.recovery,
        ARRAY['gap', 'rollback', 'precise']);
    PERFORM medusa.check_word('the method of contract ' || terms.contract, terms.method,
        ARRAY['amnesia', 'passive_standby', 'active_standby', 'upstream_backup']);
    PERFORM medusa.check_amount('the penalty', terms.penalty, 0);
    PERFORM medusa.check_length('a hold under contract ' || terms.contract, terms.hold_ms_max, 1);
    IF (terms.replicas BETWEEN 1 AND 9007199254740991) IS NOT TRUE THEN
        RAISE EXCEPTION 'contract % promises % replicas: write 1 or more', terms.contract,
            coalesce(terms.replicas::text, 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF terms.method = 'amnesia' AND terms.recovery <> 'gap' THEN
        RAISE EXCEPTION 'contract % promises % recovery, but with method amnesia a failure loses '
            'what was in work: promise gap, or another method', terms.contract, terms.recovery
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.method = 'active_standby' AND terms.replicas < 2 THEN
        RAISE EXCEPTION 'contract % leaves method active_standby with % replica: write 2 or more',
            terms.contract, terms.replicas USING ERRCODE = 'MD001';
    END IF;
    IF terms.bound_ms IS NOT NULL THEN
        PERFORM medusa.check_length('the bound of contract ' || terms.contract, terms.bound_ms, 1);
    END IF;
    IF terms.kind = 'content' THEN
        PERFORM medusa.check_names(terms.stream);
        PERFORM medusa.check_amount('the price', terms.price);
        PERFORM medusa.check_word('what contract ' || terms.contract || ' is paid per', terms.per,
            ARRAY['record', 'period']);
        RETURN;
    END IF;
    PERFORM medusa.check_amount('the price''s low', terms.price_low);
    PERFORM medusa.check_amount('the price''s high', terms.price_high);
    PERFORM medusa.check_amount('the price''s step', terms.price_step);
    PERFORM medusa.check_amount('the most load', terms.load_max);
    IF terms.price_low > terms.price_high THEN
        RAISE EXCEPTION 'the lowest price % lies above the highest %: exchange them',
            trim_scale(terms.price_low), trim_scale(terms.price_high) USING ERRCODE = 'MD001';
    END IF;
    IF (terms.price_high - terms.price_low) % terms.price_step <> 0 THEN
        RAISE EXCEPTION 'steps of % do not lead from % to %: choose a step that divides %',
            trim_scale(terms.price_step), trim_scale(terms.price_low),
            trim_scale(terms.price_high), trim_scale(terms.price_high - terms.price_low)
            USING ERRCODE = 'MD001';
    END IF;
    IF (terms.price_high - terms.price_low) / terms.price_step > 1000 THEN
        RAISE EXCEPTION 'a price range of % steps is too fine: choose a step that makes 1,000 at '
            'most', trim_scale((terms.price_high - terms.price_low) / terms.price_step)
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.fragments IS NOT NULL THEN
        IF cardinality(terms.fragments) = 0 THEN
            RAISE EXCEPTION 'contract % lets nothing move: name fragments, or NULL for any',
                terms.contract USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.check_fragments(terms.fragments);
    END IF;
    IF (cardinality(terms.billed) > 0) IS NOT TRUE OR NOT terms.billed <@ ARRAY(
        SELECT c::text FROM unnest(enum_range(NULL::medusa.cause)) AS c)
    THEN
        RAISE EXCEPTION 'contract % bills %: name causes of steps, such as {normal}',
            terms.contract, coalesce(terms.billed::text, 'nothing') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_terms(medusa.contract_revision) IS
    'Refuse terms that contradict each other, with a sentence; the constraints stand behind it.';

CREATE FUNCTION medusa.sorted_terms(terms medusa.contract_revision)
RETURNS medusa.contract_revision
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF terms.fragments IS NOT NULL THEN
        terms.fragments := ARRAY(
            SELECT DISTINCT f COLLATE "C" FROM unnest(terms.fragments) AS f ORDER BY 1);
    END IF;
    IF terms.billed IS NOT NULL THEN
        terms.billed := ARRAY(
            SELECT DISTINCT b COLLATE "C" FROM unnest(terms.billed) AS b ORDER BY 1);
    END IF;
    terms.price_low := trim_scale(terms.price_low);
    terms.price_high := trim_scale(terms.price_high);
    terms.price_step := trim_scale(terms.price_step);
    terms.load_max := trim_scale(terms.load_max);
    terms.penalty := trim_scale(terms.penalty);
    terms.price := trim_scale(terms.price);
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.sorted_terms(medusa.contract_revision) IS
    'The same terms as a document has them: sets sorted, nothing twice in one, no trailing zeros.';

CREATE FUNCTION medusa.guard_revision() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW := medusa.sorted_terms(NEW);
    PERFORM medusa.check_terms(NEW);
    IF NEW.document IS NULL THEN
        NEW.document := medusa.contract_document(NEW);
    ELSIF NEW.document <> medusa.contract_document(NEW) THEN
        RAISE EXCEPTION 'the document of contract % does not say its terms as Medusa writes them: '
            'its hash would not be theirs', NEW.contract USING ERRCODE = 'MD001';
    END IF;
    NEW.revision := encode(sha256(NEW.document), 'hex');
    IF octet_length(NEW.document) > 65536 THEN
        RAISE EXCEPTION 'a contract of % bytes: none is longer than 64 KiB',
            octet_length(NEW.document) USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_revision() IS
    'A revision''s columns, document and hash are the same; sets are sorted.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.contract_revision
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_revision();

CREATE TABLE medusa.contract_signature (
    revision   text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    party      text COLLATE "C" NOT NULL,
    signature  bytea NOT NULL CHECK (octet_length(signature) = 64),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    who        text NOT NULL DEFAULT session_user,
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (revision, party, public_key)
);
COMMENT ON TABLE medusa.contract_signature IS
    'Who signed which revision, each verified before it came here; insert-only.';
COMMENT ON COLUMN medusa.contract_signature.public_key IS 'The key that it was verified with.';

CREATE TABLE medusa.contract_proposal (
    proposal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract    text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    revision    text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    proposed_by text COLLATE "C" NOT NULL,
    because     text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200),
    who         text NOT NULL DEFAULT session_user,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL CHECK (isfinite(expires_at)),
    state       text NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'agreed', 'withdrawn', 'superseded', 'expired')),
    ended_at    timestamptz,
    let_go_at   timestamptz,
    told_as     bigint,
    CONSTRAINT proposal_ends_once CHECK ((state = 'open') = (ended_at IS NULL)),
    CONSTRAINT proposal_is_let_go_when_ended CHECK (let_go_at IS NULL OR state <> 'open')
);
COMMENT ON TABLE medusa.contract_proposal IS
    'Edits of a party that both have not signed yet, and what became of them; one of each party is '
    'open at a time.';
COMMENT ON COLUMN medusa.contract_proposal.let_go_at IS
    'Since when the payer is known not to sign it any more; until then an agreement may still '
    'come.';
COMMENT ON COLUMN medusa.contract_proposal.told_as IS
    'The number of a partner''s proposal in its own home; NULL of this home''s.';
CREATE UNIQUE INDEX contract_proposal_open ON medusa.contract_proposal (contract, proposed_by)
    WHERE state = 'open';
COMMENT ON INDEX medusa.contract_proposal_open IS 'A party proposes one thing at a time.';
CREATE INDEX contract_proposal_of_revision ON medusa.contract_proposal (revision);
COMMENT ON INDEX medusa.contract_proposal_of_revision IS 'Who proposed a revision.';
CREATE INDEX contract_proposal_of_party ON medusa.contract_proposal (proposed_by, made_at);
COMMENT ON INDEX medusa.contract_proposal_of_party IS 'What a party has proposed lately.';

CREATE FUNCTION medusa.guard_proposal() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    same medusa.contract_proposal := OLD;
BEGIN
    IF OLD.state = 'open' THEN
        same.state := NEW.state;
        same.ended_at := NEW.ended_at;
    ELSIF OLD.let_go_at IS NULL THEN
        same.let_go_at := NEW.let_go_at;
    END IF;
    IF same IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'proposal % of contract % keeps what it says: make another',
            OLD.proposal_id, OLD.contract USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_proposal() IS 'A proposal ends once, and is let go once.';
CREATE TRIGGER guard BEFORE UPDATE ON medusa.contract_proposal
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_proposal();

CREATE TABLE medusa.contract_agreement (
    revision  text COLLATE "C" PRIMARY KEY REFERENCES medusa.contract_revision,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    number    bigint NOT NULL,
    agreed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number),
    FOREIGN KEY (contract, number, revision)
        REFERENCES medusa.contract_revision (contract, number, revision)
);
COMMENT ON TABLE medusa.contract_agreement IS
    'Revisions of which this home holds both signatures, one of each number; insert-only.';

CREATE TABLE medusa.contract_notice (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    given_by  text COLLATE "C" NOT NULL,
    told_by   text COLLATE "C" NOT NULL,
    ends_at   timestamptz NOT NULL CHECK (isfinite(ends_at)),
    who       text NOT NULL DEFAULT session_user,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.contract_notice IS
    'Who ends which contract, and when it ends: the latest time that either party has told, so '
    'that the notice runs in full for the one that is given it; insert-only.';
CREATE INDEX contract_notice_of_contract ON medusa.contract_notice (contract, ends_at);
COMMENT ON INDEX medusa.contract_notice_of_contract IS 'When a contract ends.';

CREATE TABLE medusa.round (
    number    bigint PRIMARY KEY CHECK (number > 0),
    opened_at timestamptz NOT NULL,
    opened_by text NOT NULL DEFAULT session_user,
    because   text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.round IS
    'Rounds of this home, by its own clock and count: partners count their own; insert-only.';

CREATE TABLE medusa.contract_activation (
    revision     text COLLATE "C" PRIMARY KEY REFERENCES medusa.contract_agreement,
    contract     text COLLATE "C" NOT NULL,
    number       bigint NOT NULL,
    round        bigint NOT NULL REFERENCES medusa.round,
    activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number)
);
COMMENT ON TABLE medusa.contract_activation IS
    'From which round on agreed revisions are active here; the last of a contract is the one that '
    'counts; insert-only.';

CREATE TABLE medusa.contract_claim (
    contract text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    subject  text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    payer    text COLLATE "C" NOT NULL,
    provider text COLLATE "C" NOT NULL,
    validity tstzrange NOT NULL,
    between_range int8range NOT NULL GENERATED ALWAYS AS (
        medusa.subject_range(kind || '/' || payer || '/' || provider)) STORED,
    subject_range int8range NOT NULL GENERATED ALWAYS AS (
        medusa.subject_range(nullif(subject, '*'))) STORED,
    PRIMARY KEY (contract, subject),
    CONSTRAINT claim_is_for_a_time CHECK (NOT isempty(validity) AND lower_inc(validity)
        AND NOT upper_inc(validity)),
    CONSTRAINT contracts_of_one_subject_never_overlap EXCLUDE USING gist
        (between_range WITH &&, subject_range WITH &&, validity WITH &&) DEFERRABLE
);
COMMENT ON TABLE medusa.contract_claim IS
    'What agreed contracts are about, and when: no two of one kind, direction and pair of partners '
    'have a subject (a fragment, a stream; * for any fragment) at the same time.';

CREATE FUNCTION medusa.room_of(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE WHEN kind IN ('offer', 'answer') THEN 'market' ELSE 'contracts' END $$;
COMMENT ON FUNCTION medusa.room_of(text) IS
    'Which room of a sender''s in the inbox an envelope takes: offers fill none but their own.';

CREATE TABLE medusa.key_disowned (
    public_key  bytea PRIMARY KEY CHECK (octet_length(public_key) = 32),
    participant text COLLATE "C" NOT NULL,
    who         text NOT NULL DEFAULT session_user,
    disowned_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.key_disowned IS
    'Keys that somebody else may have used: nothing under them counts any more; insert-only.';

CREATE TABLE medusa.statement (
    statement  text COLLATE "C" NOT NULL CHECK (char_length(statement) BETWEEN 1 AND 300),
    party      text COLLATE "C" NOT NULL,
    signature  bytea NOT NULL CHECK (octet_length(signature) = 64),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (statement, party, public_key)
);
COMMENT ON TABLE medusa.statement IS
    'What parties have stated and signed, so that it can be shown to a home that has lost it: '
    '"holds <revision>" by the provider, "ends <contract> <given by> <ms>" by either; insert-only.';

CREATE TABLE medusa.statement_due (
    statement text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE medusa.statement_due IS
    'What this home''s program is to sign next; "signs <revision>" is a contract signed anew.';

CREATE TABLE medusa.contract_void (
    void_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    number    bigint NOT NULL,
    revision  text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    because   text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200),
    voided_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.contract_void IS
    'Agreements that count no more in this home, since both homes keep another one, or none; '
    'insert-only.';
CREATE INDEX contract_void_of_revision ON medusa.contract_void (revision, voided_at);
COMMENT ON INDEX medusa.contract_void_of_revision IS 'Whether and when a revision became void.';

CREATE TABLE medusa.partner_home (
    partner     text COLLATE "C" PRIMARY KEY,
    incarnation uuid NOT NULL,
    since       timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.partner_home IS
    'Which incarnation of its home each partner spoke of last: with another one it counts its '
    'rounds anew.';

CREATE TABLE medusa.inbox (
    envelope_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sender        text COLLATE "C" NOT NULL,
    receiver      text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    nonce         text COLLATE "C" NOT NULL,
    sent_at_ms    bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    body          bytea NOT NULL CHECK (octet_length(body) <= 98304),
    signature     bytea NOT NULL,
    hash          bytea NOT NULL UNIQUE,
    repeats       bigint NOT NULL DEFAULT 0,
    state         text NOT NULL DEFAULT 'received'
        CHECK (state IN ('received', 'verified', 'handled', 'refused')),
    reason        text,
    received_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    bytes         integer NOT NULL DEFAULT 0,
    came_from     inet NOT NULL DEFAULT '0.0.0.0',
    CONSTRAINT refused_with_a_reason CHECK ((state = 'refused') <= (reason IS NOT NULL))
);
COMMENT ON TABLE medusa.inbox IS
    'Envelopes as they came from partners: nothing in them counts before this home''s own program '
    'has verified them; refused ones are kept for a while, with the reason.';
COMMENT ON COLUMN medusa.inbox.hash IS 'Of the whole envelope: the same one again is no second.';
COMMENT ON COLUMN medusa.inbox.body IS 'Nothing once it has been handled or refused.';
COMMENT ON COLUMN medusa.inbox.bytes IS 'How long the body was.';
COMMENT ON COLUMN medusa.inbox.came_from IS
    'The address of the login that put it in: before it is verified, all else may be made up.';
COMMENT ON COLUMN medusa.inbox.repeats IS
    'How often the same envelope came again; of a refused one, how many alike followed it.';
COMMENT ON COLUMN medusa.inbox.reason IS 'Why it was refused, or what it waits for.';
CREATE INDEX inbox_received ON medusa.inbox (sender, medusa.room_of(kind), came_from, envelope_id)
    WHERE state = 'received';
COMMENT ON INDEX medusa.inbox_received IS 'What is to be verified.';
CREATE UNIQUE INDEX inbox_nonce ON medusa.inbox (sender, nonce)
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa.inbox_nonce IS 'A nonce counts once.';
CREATE INDEX inbox_of_sender ON medusa.inbox (sender, medusa.room_of(kind))
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa.inbox_of_sender IS 'How much of a sender is kept.';
CREATE INDEX inbox_refused ON medusa.inbox (sender, envelope_id) WHERE state = 'refused';
COMMENT ON INDEX medusa.inbox_refused IS 'What may be forgotten, by sender.';
CREATE INDEX inbox_counted ON medusa.inbox (expires_at_ms) WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa.inbox_counted IS 'What would be stale if it came again.';

CREATE TABLE medusa.outbox (
    message_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver        text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    about           text COLLATE "C" NOT NULL,
    body            bytea NOT NULL CHECK (octet_length(body) <= 98304),
    put_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    nonce           text COLLATE "C" UNIQUE,
    sent_at_ms      bigint,
    expires_at_ms   bigint,
    signature       bytea,
    acknowledged_at timestamptz,
    problem         text,
    CONSTRAINT message_is_sealed_whole
        CHECK (num_nonnulls(nonce, sent_at_ms, expires_at_ms, signature) IN (0, 4))
);
COMMENT ON TABLE medusa.outbox IS
    'What is to be told to partners: written with what it tells of, in one transaction, sealed by '
    'this home''s program, and sent again until it lies in the partner''s inbox.';
COMMENT ON COLUMN medusa.outbox.about IS 'The same is not put twice while it waits.';
COMMENT ON COLUMN medusa.outbox.problem IS 'Why it has not arrived yet, as last tried.';
CREATE UNIQUE INDEX outbox_waiting ON medusa.outbox (receiver, about)
    WHERE acknowledged_at IS NULL;
COMMENT ON INDEX medusa.outbox_waiting IS 'What waits to be sent.';

CREATE TABLE medusa.inbox_repeat (
    repeat_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    envelope_id bigint NOT NULL
);
COMMENT ON TABLE medusa.inbox_repeat IS
    'Envelopes that came again, until they are counted in the inbox: whoever sends one locks no '
    'row that others need.';
CREATE INDEX inbox_repeat_of ON medusa.inbox_repeat (envelope_id);
COMMENT ON INDEX medusa.inbox_repeat_of IS 'How often an envelope came again.';

CREATE TABLE medusa.partner_share (
    partner  text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    began_at timestamptz NOT NULL,
    messages integer NOT NULL,
    bytes    bigint NOT NULL,
    PRIMARY KEY (partner, kind)
);
COMMENT ON TABLE medusa.partner_share IS
    'What a partner has sent of each kind since a time, verified: when its share is used up it is '
    'refused until the time is over. Of the kind kept: what lies here of its offers and answers.';

CREATE TABLE medusa.message_retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    keep    interval NOT NULL DEFAULT '31 days'
        CHECK (keep >= '1 day' AND keep <= '3650 days')
);
COMMENT ON TABLE medusa.message_retention IS
    'How long offers, answers and refusals are kept, which the owner sets: one row.';
INSERT INTO medusa.message_retention DEFAULT VALUES;

CREATE FUNCTION medusa.messages_kept() RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT r.keep FROM medusa.message_retention AS r), '31 days'::interval) $$;
COMMENT ON FUNCTION medusa.messages_kept() IS 'For how long offers, answers and refusals stay.';

CREATE TABLE medusa.delivery_pause (
    partner  text COLLATE "C" PRIMARY KEY,
    failed   integer NOT NULL CHECK (failed > 0),
    since    timestamptz NOT NULL,
    tries_at timestamptz NOT NULL,
    problem  text NOT NULL
);
COMMENT ON TABLE medusa.delivery_pause IS
    'Partners whose inbox took nothing lately: how often in a row, since when, why, and when it is '
    'tried again. Gone as soon as one is reached or heard of.';

CREATE TABLE medusa.audit (
    audit_id bigint PRIMARY KEY,
    at       timestamptz NOT NULL,
    who      text NOT NULL,
    what     text NOT NULL,
    subject  text NOT NULL,
    before   jsonb,
    after    jsonb,
    previous bytea NOT NULL CHECK (octet_length(previous) = 32),
    hash     bytea NOT NULL CHECK (octet_length(hash) = 32)
);
COMMENT ON TABLE medusa.audit IS
    'What was done about agreements, in order: each line holds the hash of the one before and of '
    'itself; insert-only.';
COMMENT ON COLUMN medusa.audit.who IS 'The login that did it.';

CREATE TABLE medusa.audit_head (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    audit_id bigint NOT NULL,
    hash     bytea NOT NULL
);
COMMENT ON TABLE medusa.audit_head IS
    'The last line of the audit: its row is the order in which lines are written, and shows '
    'whether lines at the end are gone.';

CREATE TABLE medusa.audit_entry (
    entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what     text NOT NULL,
    subject  text NOT NULL,
    before   jsonb,
    after    jsonb
);
COMMENT ON TABLE medusa.audit_entry IS
    'Lines of the audit of transactions that have not ended: empty for everybody else. They get '
    'their place in the chain at the end, so that an open transaction keeps nobody from writing.';

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.party_key
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_revision
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_signature
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.contract_proposal
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_notice
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.round
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.audit
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.key_disowned
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.statement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_void
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.guard_voided() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_void boolean;
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        is_void := EXISTS (
            SELECT FROM medusa.contract_void AS v WHERE v.voided_at = transaction_timestamp());
    ELSE
        is_void := EXISTS (
            SELECT FROM medusa.contract_void AS v
            WHERE v.revision = OLD.revision AND v.voided_at = transaction_timestamp());
    END IF;
    IF NOT is_void THEN
        RAISE EXCEPTION 'DELETE of % is refused: the table is insert-only, but for what this '
            'transaction writes down as void', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_voided() IS
    'An agreement goes only in the transaction that writes down that it is void, and why.';

CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER voids_alone BEFORE DELETE ON medusa.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER voids_alone BEFORE DELETE ON medusa.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER voided BEFORE DELETE ON medusa.contract_agreement
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER voided BEFORE DELETE ON medusa.contract_activation
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER no_truncate BEFORE DELETE OR TRUNCATE ON medusa.audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.audit_hash(line medusa.audit) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(line.previous || convert_to(jsonb_build_array(line.audit_id,
        (extract(epoch FROM line.at) * 1000000)::bigint, line.who, line.what, line.subject,
        line.before, line.after)::text, 'UTF8'))
$$;
COMMENT ON FUNCTION medusa.audit_hash(medusa.audit) IS
    'What a line of the audit hashes to: all that it says, and the hash of the line before.';

CREATE FUNCTION medusa.guard_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    head medusa.audit_head;
BEGIN
    INSERT INTO medusa.audit_head (audit_id, hash) VALUES (0, sha256('')) ON CONFLICT DO NOTHING;
    SELECT * INTO head FROM medusa.audit_head FOR UPDATE;
    NEW.audit_id := head.audit_id + 1;
    NEW.at := clock_timestamp();
    NEW.who := session_user;
    NEW.previous := head.hash;
    NEW.hash := medusa.audit_hash(NEW);
    UPDATE medusa.audit_head SET audit_id = NEW.audit_id, hash = NEW.hash;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_audit() IS
    'Number, clock, login and hashes of a line are set here, whatever is given.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.audit
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_audit();

CREATE FUNCTION medusa.audited(given jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN octet_length(given::text) <= 2048 THEN given
        ELSE jsonb_strip_nulls(jsonb_build_object('bytes', octet_length(given::text),
            'sha256', encode(sha256(convert_to(given::text, 'UTF8')), 'hex'),
            'revision', left(given->>'revision', 64))) END
$$;
COMMENT ON FUNCTION medusa.audited(jsonb) IS
    'What the audit keeps of a value: of one that is longer than 2 KiB its hash.';

CREATE FUNCTION medusa.write_audit(
    what text, subject text, before jsonb, after jsonb
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.audit_entry (what, subject, before, after)
    VALUES (write_audit.what, write_audit.subject, medusa.audited(write_audit.before),
        medusa.audited(write_audit.after))
$$;
COMMENT ON FUNCTION medusa.write_audit(text, text, jsonb, jsonb) IS
    'Add a line to the audit, as soon as this transaction ends well.';

CREATE FUNCTION medusa.chain_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    INSERT INTO medusa.audit (what, subject, before, after)
    VALUES (NEW.what, NEW.subject, NEW.before, NEW.after);
    DELETE FROM medusa.audit_entry AS e WHERE e.entry_id = NEW.entry_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.chain_audit() IS
    'At the end of a transaction its lines go to the end of the audit, in order.';
CREATE CONSTRAINT TRIGGER chain AFTER INSERT ON medusa.audit_entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION medusa.chain_audit();

CREATE FUNCTION medusa.verify_audit() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line  medusa.audit;
    head  medusa.audit_head;
    last  bigint := 0;
    chain bytea := sha256('');
BEGIN
    FOR line IN SELECT * FROM medusa.audit ORDER BY audit_id LOOP
        IF line.audit_id <> last + 1 THEN
            RETURN format('line %s of the audit is missing', last + 1);
        END IF;
        IF line.previous <> chain OR line.hash <> medusa.audit_hash(line) THEN
            RETURN format('line %s of the audit is not as it was written', line.audit_id);
        END IF;
        last := line.audit_id;
        chain := line.hash;
    END LOOP;
    SELECT * INTO head FROM medusa.audit_head;
    IF last < coalesce(head.audit_id, 0) THEN
        RETURN format('line %s of the audit is missing', last + 1);
    END IF;
    IF chain IS DISTINCT FROM coalesce(head.hash, sha256('')) THEN
        RETURN format('line %s of the audit is not the last that was written', last);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.verify_audit() IS
    'NULL if the audit is whole; else the first line that is missing or not as it was written.';

CREATE FUNCTION medusa.here() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    SELECT h.participant INTO name FROM medusa.home AS h;
    IF name IS NULL THEN
        RAISE EXCEPTION 'nobody lives in this database: run medusa migrate' USING ERRCODE = 'MD001';
    END IF;
    RETURN name;
END $$;
COMMENT ON FUNCTION medusa.here() IS 'Whose home this is.';

CREATE FUNCTION medusa.key_of(participant text) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.public_key FROM medusa.party_key AS k
    WHERE k.participant = key_of.participant AND NOT k.is_past
    ORDER BY k.key_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa.key_of(text) IS 'The key of a participant that counts; NULL: none is known.';

CREATE FUNCTION medusa.learn_key(
    participant text, public_key bytea, because text, replaces boolean DEFAULT false
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    known medusa.party_key;
BEGIN
    PERFORM medusa.check_names(learn_key.participant);
    IF (octet_length(learn_key.public_key) = 32) IS NOT TRUE THEN
        RAISE EXCEPTION 'the key of % has % bytes: an Ed25519 key has 32', learn_key.participant,
            coalesce(octet_length(learn_key.public_key), 0) USING ERRCODE = 'MD001';
    END IF;
    LOCK TABLE medusa.party_key IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO known FROM medusa.party_key AS k
    WHERE k.participant = learn_key.participant AND NOT k.is_past
    ORDER BY k.key_id DESC LIMIT 1;
    IF known.public_key = learn_key.public_key THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM medusa.key_disowned AS d WHERE d.public_key = learn_key.public_key) THEN
        RAISE EXCEPTION 'this key of % was disowned: draw another one', learn_key.participant
            USING ERRCODE = 'MD001';
    END IF;
    IF known.key_id IS NOT NULL AND NOT learn_key.replaces THEN
        RAISE EXCEPTION 'another key of % is known here since %: if it has a new one, let the '
            'owner call medusa_api.replace_key', learn_key.participant, date_trunc('second',
            known.learned_at) USING ERRCODE = 'MD001';
    END IF;
    IF known.key_id IS NULL AND (SELECT count(*) FROM medusa.party_key) >= 10000 THEN
        RAISE EXCEPTION '10,000 keys are known here: no more is learned' USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.party_key (participant, public_key, replaces, because)
    VALUES (learn_key.participant, learn_key.public_key, known.key_id, learn_key.because);
    PERFORM medusa.write_audit('key', learn_key.participant,
        to_jsonb(encode(known.public_key, 'hex')), to_jsonb(encode(learn_key.public_key, 'hex')));
    -- What counts is signed anew, so that who knows the new key alone can verify it.
    INSERT INTO medusa.statement_due (statement)
    SELECT 'signs ' || s.revision FROM medusa.contract_signature AS s
    JOIN medusa.contract_agreement AS a ON a.revision = s.revision
    JOIN medusa.home AS h ON h.participant = s.party
    WHERE s.party = learn_key.participant
    UNION
    SELECT s.statement FROM medusa.statement AS s JOIN medusa.home AS h ON h.participant = s.party
    WHERE s.party = learn_key.participant
    ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.learn_key(text, bytea, text, boolean) IS
    'Note whose key this is; whether it is new. Another key than the known one is refused, unless '
    'it replaces it on purpose, which is the owner''s to say.';

CREATE FUNCTION medusa.learn_first_key(participant text, public_key bytea, because text)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa.learn_key(participant, public_key, because) $$;
COMMENT ON FUNCTION medusa.learn_first_key(text, bytea, text) IS
    'For jobs: note a key of somebody of whom none is known; whether it is new.';

CREATE FUNCTION medusa.hex_key(public_key text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (hex_key.public_key ~ '^[0-9a-f]{64}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'a key is written as 64 hexadecimal digits, as its owner shows it'
            USING ERRCODE = 'MD001';
    END IF;
    RETURN decode(hex_key.public_key, 'hex');
END $$;
COMMENT ON FUNCTION medusa.hex_key(text) IS 'A key in hexadecimal digits as its bytes.';

CREATE FUNCTION medusa_api.learn_key(participant text, public_key text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa.learn_key(participant, medusa.hex_key(public_key), 'told by the owner') $$;
COMMENT ON FUNCTION medusa_api.learn_key(text, text) IS
    'The owner says by which key (64 hexadecimal digits) a partner is known; whether it is new.';

CREATE FUNCTION medusa_api.replace_key(participant text, public_key text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa.learn_key(participant, medusa.hex_key(public_key), 'replaced by the owner', true) $$;
COMMENT ON FUNCTION medusa_api.replace_key(text, text) IS
    'The owner says on purpose that a participant has another key from now on.';

CREATE FUNCTION medusa_api.learn_past_key(participant text, public_key text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given bytea := medusa.hex_key(learn_past_key.public_key);
BEGIN
    PERFORM medusa.check_names(learn_past_key.participant);
    LOCK TABLE medusa.party_key IN SHARE ROW EXCLUSIVE MODE;
    IF (SELECT count(*) FROM medusa.party_key) >= 10000 THEN
        RAISE EXCEPTION '10,000 keys are known here: no more is learned' USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.party_key AS k
        WHERE (k.participant, k.public_key) = (learn_past_key.participant, given))
    THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.party_key (participant, public_key, because, is_past)
    VALUES (learn_past_key.participant, given, 'a past key, told by the owner', true);
    PERFORM medusa.write_audit('past key', learn_past_key.participant, NULL,
        to_jsonb(learn_past_key.public_key));
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_api.learn_past_key(text, text) IS
    'The owner says which key a participant had before: agreements under it count, nothing new '
    'does; whether it was not known.';

CREATE FUNCTION medusa_api.disown_key(participant text, public_key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given bytea := medusa.hex_key(disown_key.public_key);
BEGIN
    IF medusa.key_of(disown_key.participant) IS NOT DISTINCT FROM given THEN
        RAISE EXCEPTION 'this is the key of % that counts: call medusa_api.replace_key before',
            disown_key.participant USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.key_disowned (public_key, participant)
    VALUES (given, disown_key.participant) ON CONFLICT DO NOTHING;
    PERFORM medusa.write_audit('disowned key', disown_key.participant,
        to_jsonb(disown_key.public_key), NULL);
END $$;
COMMENT ON FUNCTION medusa_api.disown_key(text, text) IS
    'The owner says that somebody else may have signed with a key that was replaced: what is told '
    'here under it is refused from now on.';

CREATE FUNCTION medusa.lock_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.check_names(lock_contract.contract);
    UPDATE medusa.contract_order AS o SET edits = o.edits + 1
    WHERE o.contract = lock_contract.contract;
    IF NOT FOUND THEN
        IF (SELECT count(*) FROM medusa.contract_order AS o WHERE o.brought_by IS NULL) >= 10000
        THEN
            RAISE EXCEPTION 'this home has named 10,000 contracts: it takes no more'
                USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.contract_order (contract) VALUES (lock_contract.contract)
        ON CONFLICT DO NOTHING;
        UPDATE medusa.contract_order AS o SET edits = o.edits + 1
        WHERE o.contract = lock_contract.contract;
    END IF;
END $$;
COMMENT ON FUNCTION medusa.lock_contract(text) IS
    'Edits and documents of one contract come one after the other, from here to the end of the '
    'transaction.';

CREATE FUNCTION medusa.agreed_revision(contract text) RETURNS medusa.contract_revision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    WHERE a.contract = agreed_revision.contract ORDER BY a.number DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa.agreed_revision(text) IS
    'The last revision of a contract that both have signed; all NULL if there is none.';

CREATE FUNCTION medusa.ends_at(contract text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(g.ends_at) FROM (
        SELECT coalesce(min(n.ends_at) FILTER (WHERE n.told_by <> n.given_by), min(n.ends_at))
            AS ends_at
        FROM medusa.contract_notice AS n
        JOIN (
            SELECT r.payer, r.provider FROM medusa.contract_agreement AS a
            JOIN medusa.contract_revision AS r ON r.revision = a.revision
            WHERE a.contract = ends_at.contract ORDER BY a.number DESC LIMIT 1
        ) AS p ON n.given_by IN (p.payer, p.provider) AND n.told_by IN (p.payer, p.provider)
        WHERE n.contract = ends_at.contract
        GROUP BY n.given_by
    ) AS g
$$;
COMMENT ON FUNCTION medusa.ends_at(text) IS
    'When a contract ends by notice: the earliest of both parties'' notices, each as the one says '
    'to whom it was given (before it has said so, as its giver says); NULL: none is given.';

CREATE FUNCTION medusa.put_out(receiver text, kind text, about text, body jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (put_out.receiver, put_out.kind, put_out.about, convert_to(put_out.body::text, 'UTF8'))
    ON CONFLICT (receiver, about) WHERE acknowledged_at IS NULL DO NOTHING
$$;
COMMENT ON FUNCTION medusa.put_out(text, text, text, jsonb) IS
    'Tell a partner something, once this transaction has ended well.';

CREATE FUNCTION medusa.put_document(
    revision text, receiver text, about text, proposal bigint, expires_at timestamptz
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_out(put_document.receiver, 'document',
        put_document.about || CASE WHEN c.signature IS NULL THEN '' ELSE '/held' END,
        jsonb_build_object(
            'document', convert_from(r.document, 'UTF8'),
            'proposal', put_document.proposal,
            'expires_at_ms', medusa.to_ms(put_document.expires_at),
            'confirmation', encode(c.signature, 'hex'),
            'signatures', coalesce((
                SELECT jsonb_object_agg(s.party, encode(s.signature, 'hex') ORDER BY s.noted_at)
                FROM medusa.contract_signature AS s WHERE s.revision = r.revision
                    AND NOT EXISTS (
                        SELECT FROM medusa.key_disowned AS d WHERE d.public_key = s.public_key)),
                '{}')))
    FROM medusa.contract_revision AS r
    LEFT JOIN LATERAL (
        SELECT s.signature FROM medusa.statement AS s
        WHERE s.statement = 'holds ' || r.revision AND s.party = r.provider
            AND NOT EXISTS (
                SELECT FROM medusa.key_disowned AS d WHERE d.public_key = s.public_key)
        ORDER BY s.noted_at DESC LIMIT 1) AS c ON true
    WHERE r.revision = put_document.revision
$$;
COMMENT ON FUNCTION medusa.put_document(text, text, text, bigint, timestamptz) IS
    'Tell a partner a revision with the signatures that are here; expires_at is its proposal''s.';

CREATE FUNCTION medusa.put_notices(contract text, receiver text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_out(put_notices.receiver, 'notice',
        'notice/' || put_notices.contract || '/' || count(*),
        jsonb_build_object('contract', put_notices.contract, 'statements', jsonb_agg(
            jsonb_build_object('given_by', n.given_by, 'told_by', n.told_by,
                'ends_at_ms', n.ends_ms, 'signature', encode(n.signature, 'hex')))))
    FROM (
        SELECT DISTINCT ON (n.given_by, n.told_by, n.ends_at) n.given_by, n.told_by,
            medusa.to_ms(n.ends_at) AS ends_ms, s.signature
        FROM medusa.contract_notice AS n
        JOIN medusa.statement AS s ON s.party = n.told_by AND s.statement
            = 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
        WHERE n.contract = put_notices.contract AND EXISTS (
                SELECT FROM medusa.contract_agreement AS a WHERE a.contract = n.contract)
            AND NOT EXISTS (
                SELECT FROM medusa.key_disowned AS d WHERE d.public_key = s.public_key)
        ORDER BY n.given_by, n.told_by, n.ends_at, s.noted_at DESC LIMIT 16
    ) AS n HAVING count(*) > 0
$$;
COMMENT ON FUNCTION medusa.put_notices(text, text) IS
    'Tell a partner all that is known of when an agreed contract ends, with who has signed it.';

CREATE FUNCTION medusa.owe_statement(statement text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.statement_due (statement) VALUES (owe_statement.statement)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.owe_statement(text) IS
    'This home''s program is to sign a statement, which it then tells the partner.';

CREATE FUNCTION medusa.note_statement(
    statement text, party text, signature bytea, public_key bytea
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.statement (statement, party, signature, public_key)
    VALUES (note_statement.statement, note_statement.party, note_statement.signature,
        note_statement.public_key)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.note_statement(text, text, bytea, bytea) IS
    'Keep a statement whose signature was verified with this key.';

CREATE FUNCTION medusa.tell_agreements(contract text, receiver text, from_number bigint)
RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_document(a.revision, tell_agreements.receiver, 'agreement/' || a.revision,
        NULL, NULL)
    FROM (
        SELECT a.revision, a.number FROM medusa.contract_agreement AS a
        WHERE a.contract = tell_agreements.contract
            AND a.number >= tell_agreements.from_number
        ORDER BY a.number LIMIT 32
    ) AS a ORDER BY a.number;
    SELECT medusa.put_notices(tell_agreements.contract, tell_agreements.receiver);
$$;
COMMENT ON FUNCTION medusa.tell_agreements(text, text, bigint) IS
    'Tell a partner again what was agreed from a number on, and when it ends: it does not have it, '
    'or not yet.';

CREATE FUNCTION medusa.end_proposal(proposal medusa.contract_proposal, state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
    here  text := medusa.here();
    other text;
BEGIN
    UPDATE medusa.contract_proposal AS p SET state = end_proposal.state,
        ended_at = clock_timestamp()
    WHERE p.proposal_id = proposal.proposal_id;
    PERFORM medusa.write_audit(end_proposal.state, proposal.contract,
        to_jsonb(proposal.revision), NULL);
    IF end_proposal.state = 'agreed' OR EXISTS (
        SELECT FROM medusa.contract_agreement AS a JOIN medusa.contract_revision AS r
            ON (r.contract, r.number) = (a.contract, a.number)
        WHERE r.revision = proposal.revision)
    THEN
        RETURN;  -- the agreement tells it
    END IF;
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = proposal.revision;
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF proposal.proposed_by = here THEN
        DELETE FROM medusa.outbox AS o
        WHERE o.about = 'proposal/' || proposal.proposal_id AND o.nonce IS NULL;
        IF EXISTS (
            SELECT FROM medusa.outbox AS o WHERE o.about = 'proposal/' || proposal.proposal_id)
        THEN
            PERFORM medusa.put_out(other, 'withdrawal', 'withdrawal/' || proposal.proposal_id,
                jsonb_build_object('contract', proposal.contract, 'revision', proposal.revision,
                    'proposal', proposal.proposal_id));
        ELSE  -- it was never sent
            UPDATE medusa.contract_proposal AS p SET let_go_at = clock_timestamp()
            WHERE p.proposal_id = proposal.proposal_id;
        END IF;
    ELSIF here = terms.payer THEN
        PERFORM medusa.put_out(other, 'let_go', 'let_go/' || proposal.proposal_id,
            jsonb_build_object('contract', proposal.contract, 'revision', proposal.revision,
                'proposal', proposal.told_as));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.end_proposal(medusa.contract_proposal, text) IS
    'A proposal is open no more; the partner is told, who signed it or might.';

CREATE FUNCTION medusa.claim_subjects(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other  text;
    agreed medusa.contract_revision := medusa.agreed_revision(contract);
    ends   timestamptz := medusa.ends_at(contract);
BEGIN
    DELETE FROM medusa.contract_claim AS c WHERE c.contract = claim_subjects.contract;
    INSERT INTO medusa.contract_claim (contract, subject, kind, payer, provider, validity)
    WITH counted AS (
        SELECT agreed.*
        UNION ALL
        (SELECT r.* FROM medusa.contract_activation AS v
        JOIN medusa.contract_revision AS r ON r.revision = v.revision
        WHERE v.contract = claim_subjects.contract AND v.revision <> agreed.revision
            AND NOT EXISTS (
                SELECT FROM medusa.contract_activation AS n WHERE n.revision = agreed.revision)
        ORDER BY v.number DESC LIMIT 1)
    ), spoken AS (
        SELECT tstzrange(min(lower(c.validity)), least(max(upper(c.validity)),
            CASE WHEN ends IS NOT NULL THEN greatest(ends, min(lower(c.validity))) END)) AS validity,
            bool_or(c.kind = 'movement' AND c.fragments IS NULL) AS is_any
        FROM counted AS c
    )
    SELECT claim_subjects.contract, s.subject, agreed.kind, agreed.payer, agreed.provider,
        spoken.validity
    FROM spoken, LATERAL (
        SELECT '*' AS subject WHERE spoken.is_any
        UNION SELECT f FROM counted AS c, unnest(c.fragments) AS f WHERE NOT spoken.is_any
        UNION SELECT c.stream FROM counted AS c WHERE c.stream IS NOT NULL
    ) AS s
    WHERE NOT isempty(spoken.validity);
EXCEPTION WHEN exclusion_violation THEN
    SELECT c.contract INTO other FROM medusa.contract_claim AS c
    WHERE c.contract <> claim_subjects.contract AND c.kind = agreed.kind
        AND (c.payer, c.provider) = (agreed.payer, agreed.provider)
        AND c.validity && agreed.validity LIMIT 1;
    RAISE EXCEPTION 'contract % is about what contract % is about at the same time: end one of '
        'them before', contract, coalesce(other, 'another') USING ERRCODE = 'MD002';
END $$;
COMMENT ON FUNCTION medusa.claim_subjects(text) IS
    'Note what a contract is about and when: what is agreed last, and what is still active; a '
    'conflict if another contract is about the same.';

CREATE FUNCTION medusa.check_overlap(terms medusa.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other medusa.contract_claim;
BEGIN
    SELECT c.* INTO other FROM medusa.contract_claim AS c
    WHERE c.contract <> terms.contract AND c.kind = terms.kind
        AND (c.payer, c.provider) = (terms.payer, terms.provider) AND c.validity && terms.validity
        AND (c.subject = '*' OR c.subject = terms.stream OR terms.kind = 'movement'
            AND (terms.fragments IS NULL OR EXISTS (
                SELECT FROM unnest(terms.fragments) AS f
                WHERE medusa.is_fragment_of(f, c.subject) OR medusa.is_fragment_of(c.subject, f))))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'contract % is about % from % to % already: choose another validity or '
            'subject, or end it before', other.contract,
            CASE other.subject WHEN '*' THEN 'any fragment' ELSE other.subject END,
            lower(other.validity), upper(other.validity) USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_overlap(medusa.contract_revision) IS
    'Refuse terms about what an agreed contract is about at the same time; the exclusion '
    'constraint stands behind it.';

CREATE FUNCTION medusa.with_number(
    terms medusa.contract_revision, number bigint, supersedes text
) RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    terms.number := with_number.number;
    terms.supersedes := with_number.supersedes;
    terms.document := medusa.contract_document(terms);
    terms.revision := encode(sha256(terms.document), 'hex');
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.with_number(medusa.contract_revision, bigint, text) IS
    'These terms as a revision of that number.';

CREATE FUNCTION medusa.check_proposal(given medusa.contract_revision)
RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms  medusa.contract_revision := given;
    agreed medusa.contract_revision;
    here   text := medusa.here();
    other  text;
    ends   timestamptz;
BEGIN
    -- 1 Whose contract, and what is agreed of it?
    IF (here IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'this is the home of %, no party of contract %: let its payer or its '
            'provider edit it', here, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa.key_of(here) IS NULL THEN
        RAISE EXCEPTION '% has no key to sign with yet: run medusa apply', here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa.agreed_revision(terms.contract);
    ends := least(medusa.ends_at(terms.contract), upper(agreed.validity));
    IF ends <= clock_timestamp() OR medusa.ends_at(terms.contract) IS NOT NULL THEN
        RAISE EXCEPTION 'contract % ends at %: make another one under another name', terms.contract,
            ends USING ERRCODE = 'MD001';
    END IF;
    IF agreed.revision IS NOT NULL AND (agreed.kind, agreed.payer, agreed.provider)
        IS DISTINCT FROM (terms.kind, terms.payer, terms.provider)
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider), which '
            'stays: make another one', terms.contract, agreed.kind, agreed.payer, agreed.provider
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 Are the terms sound?
    terms := medusa.sorted_terms(terms);
    terms.number := coalesce(agreed.number, 0) + 1;
    terms.supersedes := agreed.revision;
    PERFORM medusa.check_terms(terms);
    IF upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % would have ended at %: let it be valid longer', terms.contract,
            upper(terms.validity) USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_overlap(terms);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF medusa.key_of(other) IS NULL THEN
        RAISE EXCEPTION 'no key of participant % is known here: if it is one, call '
            'medusa_api.learn_key with the key that it shows', other USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.check_proposal(medusa.contract_revision) IS
    'Refuse terms that this home may not propose now; else the same terms as the next revision.';

CREATE FUNCTION medusa.propose(
    given medusa.contract_revision, expires_at timestamptz, because text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision := given;
    agreed medusa.contract_revision;
    own    medusa.contract_proposal;
    here   text := medusa.here();
    other  text;
BEGIN
    -- 1 May this home propose it, and are the terms sound?
    PERFORM medusa.lock_contract(terms.contract);
    terms := medusa.check_proposal(terms);
    agreed := medusa.agreed_revision(terms.contract);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF (expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + interval '31 days')
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days from now, not until %', expires_at
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 What does this home propose already?
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = here AND p.state = 'open';
    terms := medusa.with_number(terms, terms.number, terms.supersedes);
    IF own.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF agreed.revision = (medusa.with_number(terms, agreed.number, agreed.supersedes)).revision THEN
        IF own.proposal_id IS NOT NULL THEN
            PERFORM medusa.end_proposal(own, 'withdrawn');
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        RETURN agreed.revision;
    END IF;
    IF own.proposal_id IS NOT NULL THEN
        PERFORM medusa.end_proposal(own, 'superseded');
    END IF;

    -- 3 Propose it. The provider's goes out with its signature, which the program makes.
    terms.known_at := clock_timestamp();
    INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    INSERT INTO medusa.contract_proposal (contract, revision, proposed_by, because, expires_at)
    VALUES (terms.contract, terms.revision, here, propose.because, propose.expires_at)
    RETURNING * INTO own;
    PERFORM medusa.write_audit('proposed', terms.contract, to_jsonb(agreed.revision),
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision', terms.revision));
    IF here = terms.payer OR EXISTS (
        SELECT FROM medusa.contract_signature AS s
        WHERE s.revision = terms.revision AND s.party = here)
    THEN
        PERFORM medusa.put_document(terms.revision, other, 'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN terms.revision;
END $$;
COMMENT ON FUNCTION medusa.propose(medusa.contract_revision, timestamptz, text) IS
    'Propose terms to the partner, as the next revision of the contract, instead of what this home '
    'proposed before; returns the revision. What the partner proposes already is accepted so.';

CREATE FUNCTION medusa.propose_document(document bytea, lasts_ms bigint, because text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision := medusa.terms_of(document);
    agreed medusa.contract_revision;
BEGIN
    PERFORM medusa.check_terms(terms);
    IF medusa.contract_document(terms) <> propose_document.document THEN
        RAISE EXCEPTION 'the document of contract % does not say its terms as Medusa writes them: '
            'its hash would not be theirs', terms.contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.lock_contract(terms.contract);
    agreed := medusa.agreed_revision(terms.contract);
    IF agreed.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        RAISE EXCEPTION 'contract % is agreed to number % here, and number % does not follow that: '
            'read it again', terms.contract, coalesce(agreed.number, 0), terms.number
            USING ERRCODE = 'MD002';
    END IF;
    PERFORM medusa.check_length('a proposal', lasts_ms, 1);
    RETURN medusa.propose(terms, clock_timestamp()
        + least(lasts_ms, 31 * 86400000::bigint - 1000) * interval '1 ms', because);
END $$;
COMMENT ON FUNCTION medusa.propose_document(bytea, bigint, text) IS
    'Propose the terms of a document, which lasts so long; returns its revision. A conflict if it '
    'is not the next revision.';

CREATE FUNCTION medusa.agree(revision text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms    medusa.contract_revision;
    proposal medusa.contract_proposal;
    here     text := medusa.here();
BEGIN
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = agree.revision;
    INSERT INTO medusa.contract_agreement (revision, contract, number)
    VALUES (terms.revision, terms.contract, terms.number);
    PERFORM medusa.claim_subjects(terms.contract);
    PERFORM medusa.write_audit('agreed', terms.contract, to_jsonb(terms.supersedes),
        to_jsonb(terms.revision));
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.contract = terms.contract AND p.state = 'open' ORDER BY p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal,
            CASE proposal.revision WHEN terms.revision THEN 'agreed' ELSE 'superseded' END);
    END LOOP;
    IF NOT EXISTS (
        SELECT FROM medusa.statement AS s
        WHERE s.statement = 'holds ' || terms.revision AND s.party = terms.provider)
    THEN
        IF here = terms.payer THEN
            PERFORM medusa.put_document(terms.revision, terms.provider,
                'agreement/' || terms.revision, NULL, NULL);
        ELSE
            PERFORM medusa.owe_statement('holds ' || terms.revision);
        END IF;
    END IF;
    PERFORM medusa.hear_notices(terms.contract);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.agree(text) IS
    'Both signatures of a revision are here: it is agreed, all else that was proposed is past. The '
    'payer tells of it, the provider states that it holds it.';

CREATE FUNCTION medusa.sign_contract(revision text, signature bytea, public_key bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms medusa.contract_revision;
    own   medusa.contract_proposal;
    here  text := medusa.here();
BEGIN
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = sign_contract.revision;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'revision % is not known here: propose it first', left(revision, 80)
            USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.lock_contract(terms.contract);
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.revision = terms.revision AND p.proposed_by = here AND p.state = 'open'
        AND p.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;  -- taken back meanwhile, or signed already
    END IF;
    IF sign_contract.public_key IS DISTINCT FROM medusa.key_of(here) THEN
        RAISE EXCEPTION 'the key of % is another one than it signed with: let the owner call '
            'medusa_api.replace_key', here USING ERRCODE = 'MD001';
    END IF;
    IF here = terms.payer AND NOT (
        EXISTS (
            SELECT FROM medusa.contract_proposal AS p
            WHERE p.revision = terms.revision AND p.proposed_by = terms.provider
                AND p.state = 'open' AND p.expires_at > clock_timestamp())
        AND EXISTS (
            SELECT FROM medusa.contract_signature AS s
            WHERE s.revision = terms.revision AND s.party = terms.provider)
        AND medusa.ends_at(terms.contract) IS NULL
        AND terms.number = 1 + coalesce((medusa.agreed_revision(terms.contract)).number, 0))
    THEN
        RETURN false;  -- the provider has not signed it, or took it back
    END IF;
    INSERT INTO medusa.contract_signature (revision, party, signature, public_key)
    VALUES (terms.revision, here, sign_contract.signature, sign_contract.public_key)
    ON CONFLICT DO NOTHING;
    -- The payer's may be here from an agreement that became void.
    IF NOT FOUND AND here = terms.provider THEN
        RETURN false;
    END IF;
    PERFORM medusa.write_audit('signed', terms.contract, NULL, to_jsonb(terms.revision));
    IF here = terms.payer THEN
        PERFORM medusa.agree(terms.revision);
    ELSE
        PERFORM medusa.put_document(terms.revision, terms.payer, 'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.sign_contract(text, bytea, bytea) IS
    'This home signs what it proposes: the provider as an offer, the payer last of all, which '
    'makes it agreed. Whether there was something to sign.';

CREATE FUNCTION medusa.refuse_too_much(what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'too much: %', what USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.refuse_too_much(text) IS
    'Refuse what is beyond a partner''s share: refusals that begin so are recorded once an hour.';

CREATE FUNCTION medusa.charge_share(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lasts_ms     bigint := 3600000;
    messages_max integer := 4096;
    bytes_max    bigint := 67108864;
    used         medusa.partner_share;
BEGIN
    IF envelope.kind IN ('offer', 'answer') THEN
        SELECT coalesce(max(m.round_ms), 60000) INTO lasts_ms FROM medusa.market AS m;
        messages_max := CASE envelope.kind WHEN 'offer' THEN 64 ELSE 128 END;
        bytes_max := 524288;
    ELSIF envelope.kind = 'want' THEN
        messages_max := 1024;
    ELSIF envelope.kind = 'notice' THEN
        messages_max := 2048;
    ELSIF envelope.kind IN ('standing', 'holdings') THEN
        messages_max := 512;
    END IF;
    INSERT INTO medusa.partner_share AS s (partner, kind, began_at, messages, bytes)
    VALUES (envelope.sender, envelope.kind, clock_timestamp(), 1, envelope.bytes)
    ON CONFLICT (partner, kind) DO UPDATE SET (began_at, messages, bytes) = (
        SELECT CASE WHEN w.is_over THEN EXCLUDED.began_at ELSE s.began_at END,
            CASE WHEN w.is_over THEN 1 ELSE s.messages + 1 END,
            CASE WHEN w.is_over THEN EXCLUDED.bytes ELSE s.bytes + EXCLUDED.bytes END
        FROM (SELECT s.began_at + lasts_ms * interval '1 ms' <= clock_timestamp()) AS w (is_over))
    RETURNING s.* INTO used;
    IF used.messages > messages_max OR used.bytes > bytes_max THEN
        PERFORM medusa.refuse_too_much(format('%s has sent %s messages of kind %s, or %s bytes of '
            'them, within %s s: it may make no more until they are over', envelope.sender,
            messages_max, envelope.kind, bytes_max, lasts_ms / 1000));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.charge_share(medusa.inbox) IS
    'Count a verified envelope against its sender''s share of its kind: of offers and answers a '
    'round''s, of messages about contracts an hour''s.';

CREATE FUNCTION medusa.charge_contracts(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  jsonb := convert_from(envelope.body, 'UTF8')::jsonb;
    named  text;
    lately bigint;
    kept   bigint;
BEGIN
    IF envelope.kind = 'document' THEN
        named := (given->>'document')::jsonb->>'contract';
    ELSE
        named := given->>'contract';
    END IF;
    -- Its first edit is this one, whose lock is held: nobody else has named it before. What both
    -- have signed this home has named itself, and lost.
    UPDATE medusa.contract_order AS o SET brought_by = envelope.sender
    WHERE o.contract = named AND o.edits = 1 AND o.brought_by IS NULL
        AND NOT (envelope.kind = 'document'
            AND (SELECT count(*) FROM jsonb_object_keys(given->'signatures')) = 2);
    IF FOUND AND (SELECT count(*) FROM medusa.contract_order AS o
        WHERE o.brought_by = envelope.sender) > 2048
    THEN
        PERFORM medusa.refuse_too_much(format('%s has named 2,048 contracts here: it may name no '
            'more', envelope.sender));
    END IF;
    IF envelope.kind <> 'document' OR given->>'proposal' IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*) INTO lately FROM medusa.contract_proposal AS p
    WHERE p.proposed_by = envelope.sender AND p.made_at > clock_timestamp() - interval '1 day';
    IF lately >= 4096 THEN
        PERFORM medusa.refuse_too_much(format('%s has proposed 4,096 times within a day: it may '
            'propose no more until that is over', envelope.sender));
    END IF;
    SELECT sum(octet_length(r.document)) INTO kept FROM medusa.contract_revision AS r
    WHERE r.revision IN (
            SELECT p.revision FROM medusa.contract_proposal AS p
            WHERE p.proposed_by = envelope.sender)
        AND NOT EXISTS (
            SELECT FROM medusa.contract_agreement AS a WHERE a.revision = r.revision);
    IF kept > 33554432 THEN
        PERFORM medusa.refuse_too_much(format('what %s has proposed and nobody agreed on fills its '
            '32 MiB: agree on something with it, or make a contract yourself', envelope.sender));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.charge_contracts(medusa.inbox) IS
    'Refuse contracts beyond the 2,048 that a partner may name here, proposals beyond 4,096 a day, '
    'and beyond 32 MiB of what was never agreed on. What both have signed is no proposal.';

CREATE FUNCTION medusa.charge(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.charge_share(envelope);
    IF medusa.room_of(envelope.kind) = 'market' THEN
        PERFORM medusa.charge_market(envelope);
    ELSIF envelope.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice', 'refusal') THEN
        PERFORM medusa.charge_contracts(envelope);
    END IF;
    DELETE FROM medusa.delivery_pause AS p WHERE p.partner = envelope.sender;
END $$;
COMMENT ON FUNCTION medusa.charge(medusa.inbox) IS
    'A verified envelope counts against its sender''s bounds, once; refused beyond them. Who is '
    'heard of is sent to again.';

CREATE FUNCTION medusa.state(statement text, signature bytea, public_key bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here    text := medusa.here();
    what    text := split_part(state.statement, ' ', 1);
    about   text := split_part(state.statement, ' ', 2);
    agreed  medusa.contract_revision;
BEGIN
    IF state.public_key IS DISTINCT FROM medusa.key_of(here) THEN
        RAISE EXCEPTION 'the key of % is another one than it signed with: let the owner call '
            'medusa_api.replace_key', here USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa.statement_due AS d WHERE d.statement = state.statement;
    IF NOT FOUND THEN
        RETURN false;  -- stated meanwhile
    END IF;
    IF what = 'signs' THEN
        PERFORM medusa.note_signature(about, here, state.signature, state.public_key);
        RETURN true;
    END IF;
    PERFORM medusa.note_statement(state.statement, here, state.signature, state.public_key);
    IF what = 'holds' THEN
        PERFORM medusa.put_document(r.revision, r.payer, 'agreement/' || r.revision, NULL, NULL)
        FROM medusa.contract_agreement AS a
        JOIN medusa.contract_revision AS r ON r.revision = a.revision
        WHERE a.revision = about;
    ELSE
        agreed := medusa.agreed_revision(about);
        IF agreed.revision IS NOT NULL THEN
            PERFORM medusa.put_notices(about,
                CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END);
        END IF;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.state(text, bytea, bytea) IS
    'This home has signed what it was to state, and tells it the partner; whether it was to.';

CREATE FUNCTION medusa.void_agreements(contract text, from_number bigint, because text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    proposal medusa.contract_proposal;
BEGIN
    INSERT INTO medusa.contract_void (contract, number, revision, because, voided_at)
    SELECT a.contract, a.number, a.revision, void_agreements.because, transaction_timestamp()
    FROM medusa.contract_agreement AS a
    WHERE a.contract = void_agreements.contract AND a.number >= from_number
    ORDER BY a.number;
    DELETE FROM medusa.contract_activation AS v
    WHERE v.contract = void_agreements.contract AND v.number >= from_number;
    DELETE FROM medusa.contract_agreement AS a
    WHERE a.contract = void_agreements.contract AND a.number >= from_number;
    FOR proposal IN SELECT p.* FROM medusa.contract_proposal AS p
        JOIN medusa.contract_revision AS r ON r.revision = p.revision
        WHERE p.contract = void_agreements.contract AND p.state = 'open' AND r.number > from_number
        ORDER BY p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'superseded');
    END LOOP;
    PERFORM medusa.claim_subjects(void_agreements.contract);
    PERFORM medusa.write_audit('void', void_agreements.contract, to_jsonb(from_number),
        to_jsonb(void_agreements.because));
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.void_agreements(text, bigint, text) IS
    'What is agreed here from a number on counts no more, and why: both homes keep another '
    'revision, or none.';

CREATE FUNCTION medusa.end_envelope(envelope_id bigint) RETURNS medusa.inbox
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    SELECT * INTO envelope FROM medusa.inbox AS i
    WHERE i.envelope_id = end_envelope.envelope_id AND i.state IN ('received', 'verified')
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'envelope % is handled already: look at the next', envelope_id
            USING ERRCODE = 'MD002';
    END IF;
    UPDATE medusa.inbox AS i SET state = 'handled', reason = NULL, body = '',
        ended_at = clock_timestamp()
    WHERE i.envelope_id = end_envelope.envelope_id;
    IF envelope.state = 'received' THEN
        PERFORM medusa.charge(envelope);
    END IF;
    RETURN envelope;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.end_envelope(bigint) IS
    'An envelope is handled, in the transaction that does what it says; its nonce counts once. As '
    'it was before.';

CREATE FUNCTION medusa.note_signature(
    revision text, party text, signature bytea, public_key bytea
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.contract_signature (revision, party, signature, public_key)
    VALUES (note_signature.revision, note_signature.party, note_signature.signature,
        note_signature.public_key)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.note_signature(text, text, bytea, bytea) IS
    'Keep a signature that was verified with this key.';

CREATE FUNCTION medusa.held_agreement(document bytea, envelope_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'revision', held.revision,
        'before', (
            SELECT a.revision FROM medusa.contract_agreement AS a
            WHERE a.contract = told.contract AND a.number = told.number - 1),
        'counts', coalesce(held.provider = h.participant OR EXISTS (
            SELECT FROM medusa.statement AS s
            WHERE s.statement = 'holds ' || held.revision AND s.party = held.provider), false),
        'is_bound', told.provider <> h.participant
            OR NOT EXISTS (
                SELECT FROM medusa.contract_proposal AS p
                WHERE p.revision = told.revision AND p.proposed_by = h.participant)
            OR EXISTS (
                SELECT FROM medusa.contract_proposal AS p
                JOIN medusa.inbox AS i ON i.envelope_id = held_agreement.envelope_id
                WHERE p.revision = told.revision AND p.proposed_by = h.participant
                    AND p.let_go_at IS NULL AND p.expires_at + interval '7 days' > i.received_at))
    FROM medusa.home AS h
    CROSS JOIN medusa.terms_of(held_agreement.document) AS told
    LEFT JOIN LATERAL (
        SELECT r.revision, r.provider FROM medusa.contract_agreement AS a
        JOIN medusa.contract_revision AS r ON r.revision = a.revision
        WHERE a.contract = told.contract AND a.number = told.number) AS held ON true
$$;
COMMENT ON FUNCTION medusa.held_agreement(bytea, bigint) IS
    'What is held here where a document that an envelope brings belongs: judged by '
    'medusa_core/market/converging.py. Whether it still binds counts from when it came.';

CREATE FUNCTION medusa.take_document(
    envelope_id bigint, document bytea, signatures jsonb, proposal_told bigint,
    expires_at_ms bigint, verdict text, judged jsonb
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope  medusa.inbox;
    terms     medusa.contract_revision := medusa.terms_of(document);
    agreed    medusa.contract_revision;
    proposal  medusa.contract_proposal;
    here      text := medusa.here();
    is_signed boolean := signatures ? 'payer' AND signatures ? 'provider';
BEGIN
    -- 1 Is it between the sender and this home?
    PERFORM medusa.check_terms(terms);
    PERFORM medusa.lock_contract(terms.contract);
    envelope := medusa.end_envelope(envelope_id);
    IF NOT (here IN (terms.payer, terms.provider) AND envelope.sender IN (terms.payer, terms.provider)
        AND envelope.sender <> here)
    THEN
        RAISE EXCEPTION 'contract % is one of % and %: % sends it to %, who has no part in it',
            terms.contract, terms.payer, terms.provider, envelope.sender, here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa.agreed_revision(terms.contract);
    IF agreed.revision IS NOT NULL AND (NOT here IN (agreed.payer, agreed.provider)
        OR NOT envelope.sender IN (agreed.payer, agreed.provider)
        OR NOT is_signed AND (agreed.kind, agreed.payer, agreed.provider)
            IS DISTINCT FROM (terms.kind, terms.payer, terms.provider))
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider) here',
            terms.contract, agreed.kind, agreed.payer, agreed.provider USING ERRCODE = 'MD001';
    END IF;

    -- 2 What is agreed already is told again to who does not have it.
    IF EXISTS (SELECT FROM medusa.contract_agreement AS a WHERE a.revision = terms.revision) THEN
        IF signatures ? 'confirmation' THEN
            PERFORM medusa.note_statement('holds ' || terms.revision, terms.provider,
                decode(signatures->'confirmation'->>'signature', 'hex'),
                decode(signatures->'confirmation'->>'public_key', 'hex'));
        END IF;
        IF NOT is_signed OR here = terms.provider AND NOT signatures ? 'confirmation' THEN
            PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        END IF;
        RETURN 'agreed before';
    END IF;

    -- 3 Both have signed: what becomes of it was judged from what is held here.
    IF is_signed THEN
        IF medusa.held_agreement(document, envelope_id) IS DISTINCT FROM judged THEN
            RAISE EXCEPTION 'contract % was agreed otherwise meanwhile: look again', terms.contract
                USING ERRCODE = 'MD002';
        END IF;
        IF verdict = 'earlier' THEN
            PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
                jsonb_build_object('contract', terms.contract, 'number',
                    least(terms.number - 1, coalesce(agreed.number, 0) + 1)));
            RETURN 'what comes before is asked for';
        ELSIF verdict = 'keep' THEN
            PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
            RETURN 'agreed otherwise';
        ELSIF verdict = 'late' THEN
            PERFORM medusa.put_out(envelope.sender, 'refusal', 'refusal/' || terms.revision,
                jsonb_build_object('contract', terms.contract, 'number', terms.number,
                    'revision', terms.revision, 'newest', coalesce(agreed.number, 0)));
            PERFORM medusa.write_audit('refused', terms.contract, NULL, to_jsonb(terms.revision));
            RETURN 'it comes too late';
        ELSIF (verdict IN ('agree', 'replace')) IS NOT TRUE THEN
            RAISE EXCEPTION 'an agreement on contract % comes without a verdict', terms.contract
                USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
        PERFORM medusa.note_signature(terms.revision,
            CASE s.key WHEN 'payer' THEN terms.payer ELSE terms.provider END,
            decode(s.value->>'signature', 'hex'), decode(s.value->>'public_key', 'hex'))
        FROM jsonb_each(signatures) AS s WHERE s.key <> 'confirmation';
        IF signatures ? 'confirmation' THEN
            PERFORM medusa.note_statement('holds ' || terms.revision, terms.provider,
                decode(signatures->'confirmation'->>'signature', 'hex'),
                decode(signatures->'confirmation'->>'public_key', 'hex'));
        END IF;
        IF verdict = 'replace' THEN
            PERFORM medusa.void_agreements(terms.contract, terms.number,
                'both homes keep ' || terms.revision || ' instead');
        END IF;
        PERFORM medusa.agree(terms.revision);
        RETURN 'agreed';
    END IF;

    -- 4 A proposal of what is past, or of what builds on what is not here.
    IF terms.number <= agreed.number THEN
        PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'agreed otherwise';
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract, 'number',
                least(terms.number - 1, coalesce(agreed.number, 0) + 1)));
        RETURN 'what comes before is asked for';
    END IF;

    -- 5 A proposal; the provider's is signed, the payer signs last.
    INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    IF envelope.sender = terms.provider AND NOT signatures ? 'provider' THEN
        RAISE EXCEPTION 'the provider proposes contract % without its signature: let it sign',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa.ends_at(terms.contract) IS NOT NULL OR upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % has ended or ends by notice: propose another one',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF proposal_told IS NULL THEN
        RAISE EXCEPTION 'a proposal has a number in the home that makes it' USING ERRCODE = 'MD001';
    END IF;
    IF (expires_at_ms BETWEEN 0 AND medusa.to_ms(clock_timestamp()) + 32 * 86400000::bigint)
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days' USING ERRCODE = 'MD001';
    END IF;
    IF medusa.at_ms(expires_at_ms) <= clock_timestamp() THEN
        RETURN 'expired on the way';
    END IF;
    IF (SELECT count(*) FROM medusa.contract_proposal AS p
        WHERE p.state = 'open' AND p.proposed_by = envelope.sender) >= 1000
    THEN
        RAISE EXCEPTION '% has 1,000 open proposals here: it may propose no more', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF signatures ? 'provider' AND envelope.sender = terms.provider THEN
        PERFORM medusa.note_signature(terms.revision, terms.provider,
            decode(signatures->'provider'->>'signature', 'hex'),
            decode(signatures->'provider'->>'public_key', 'hex'));
    END IF;
    SELECT * INTO proposal FROM medusa.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = envelope.sender AND p.state = 'open';
    IF (proposal.revision, proposal.told_as) = (terms.revision, proposal_told) THEN
        RETURN 'proposed before';
    ELSIF FOUND THEN
        PERFORM medusa.end_proposal(proposal, 'superseded');
    END IF;
    INSERT INTO medusa.contract_proposal (contract, revision, proposed_by, because, expires_at,
        told_as)
    VALUES (terms.contract, terms.revision, envelope.sender, 'told by the partner',
        medusa.at_ms(expires_at_ms), proposal_told);
    PERFORM medusa.write_audit('told', terms.contract, NULL,
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision', terms.revision));
    PERFORM pg_notify('medusa_progress', '');
    RETURN 'proposed';
END $$;
COMMENT ON FUNCTION medusa.take_document(bigint, bytea, jsonb, bigint, bigint, text, jsonb) IS
    'Bring what a partner''s envelope says about a contract: a proposal, or both signatures, of '
    'which a verdict says what becomes. The envelope and the signatures given (payer, provider, '
    'confirmation, each with its key) have been verified. What came of it.';

CREATE FUNCTION medusa.take_refusal(
    envelope_id bigint, contract text, number bigint, revision text, newest bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    terms    medusa.contract_revision;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    SELECT r.* INTO terms FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    WHERE (a.contract, a.number, a.revision)
        = (take_refusal.contract, take_refusal.number, take_refusal.revision);
    IF NOT FOUND THEN
        RETURN 'it is not held here';
    END IF;
    IF terms.provider <> envelope.sender THEN
        RAISE EXCEPTION '% refuses number % of contract %, of which it is not the provider',
            envelope.sender, terms.number, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.statement AS s
        WHERE s.statement = 'holds ' || terms.revision AND s.party = terms.provider)
    THEN
        PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'it has said that it holds it';
    END IF;
    PERFORM medusa.void_agreements(terms.contract, terms.number,
        envelope.sender || ' refuses it: it came too late');
    IF newest >= terms.number THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract, 'number', terms.number));
    END IF;
    RETURN 'void';
END $$;
COMMENT ON FUNCTION medusa.take_refusal(bigint, text, bigint, text, bigint) IS
    'The provider does not take what was agreed here: it is void, unless the provider has said once '
    'that it holds it, which it is shown.';

CREATE FUNCTION medusa.contract_with(contract text, sender text) RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
BEGIN
    SELECT r.* INTO terms FROM medusa.contract_revision AS r
    WHERE r.contract = contract_with.contract ORDER BY r.number DESC LIMIT 1;
    IF NOT FOUND OR (sender IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'there is no contract % with % here', left(contract, 80), sender
            USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.contract_with(text, text) IS
    'Any revision of a contract with a partner; refused if there is none.';

CREATE FUNCTION medusa.take_withdrawal(
    envelope_id bigint, contract text, revision text, proposal_told bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    proposal medusa.contract_proposal;
    terms    medusa.contract_revision;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    terms := medusa.contract_with(contract, envelope.sender);
    IF EXISTS (
        SELECT FROM medusa.contract_agreement AS a WHERE a.revision = take_withdrawal.revision)
    THEN
        PERFORM medusa.tell_agreements(contract, envelope.sender, (
            SELECT a.number FROM medusa.contract_agreement AS a
            WHERE a.revision = take_withdrawal.revision));
        RETURN 'agreed before it came';
    END IF;
    SELECT * INTO proposal FROM medusa.contract_proposal AS p
    WHERE p.revision = take_withdrawal.revision AND p.proposed_by = envelope.sender
        AND p.contract = take_withdrawal.contract AND p.told_as = proposal_told
    ORDER BY p.proposal_id DESC LIMIT 1;
    IF proposal.state = 'open' THEN
        PERFORM medusa.end_proposal(proposal, 'withdrawn');
        PERFORM pg_notify('medusa_progress', '');
    ELSIF medusa.here() = terms.payer THEN
        PERFORM medusa.put_out(envelope.sender, 'let_go', 'let_go/told/' || proposal_told,
            jsonb_build_object('contract', contract, 'revision', take_withdrawal.revision,
                'proposal', proposal_told));
    END IF;
    RETURN 'withdrawn';
END $$;
COMMENT ON FUNCTION medusa.take_withdrawal(bigint, text, text, bigint) IS
    'A partner takes back what it proposed: gone, or agreed before, which it is told.';

CREATE FUNCTION medusa.take_let_go(
    envelope_id bigint, contract text, revision text, proposal_told bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    PERFORM medusa.contract_with(contract, envelope.sender);
    UPDATE medusa.contract_proposal AS p SET let_go_at = clock_timestamp()
    WHERE p.contract = take_let_go.contract AND p.revision = take_let_go.revision
        AND p.proposal_id = proposal_told AND p.proposed_by = medusa.here()
        AND p.state <> 'open' AND p.let_go_at IS NULL;
    RETURN 'let go';
END $$;
COMMENT ON FUNCTION medusa.take_let_go(bigint, text, text, bigint) IS
    'The payer says that it will not sign what this home took back.';

CREATE FUNCTION medusa.take_want(envelope_id bigint, contract text, number bigint)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    PERFORM medusa.contract_with(contract, envelope.sender);
    PERFORM medusa.tell_agreements(contract, envelope.sender, take_want.number);
    RETURN 'told again';
END $$;
COMMENT ON FUNCTION medusa.take_want(bigint, text, bigint) IS
    'A partner lacks what was agreed from a number on: it is told again.';

CREATE FUNCTION medusa.note_notice(
    contract text, given_by text, told_by text, ends_at timestamptz, noted_at timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before   timestamptz := medusa.ends_at(contract);
    proposal medusa.contract_proposal;
BEGIN
    INSERT INTO medusa.contract_notice (contract, given_by, told_by, ends_at, noted_at)
    VALUES (note_notice.contract, note_notice.given_by, note_notice.told_by, note_notice.ends_at,
        note_notice.noted_at);
    IF medusa.ends_at(contract) IS NOT DISTINCT FROM before THEN
        RETURN;
    END IF;
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.contract = note_notice.contract AND p.state = 'open' ORDER BY p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'withdrawn');
    END LOOP;
    PERFORM medusa.claim_subjects(contract);
    PERFORM medusa.write_audit('notice', contract, to_jsonb(before),
        jsonb_build_object('given_by', note_notice.given_by,
            'ends_at', medusa.ends_at(note_notice.contract)));
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.note_notice(text, text, text, timestamptz, timestamptz) IS
    'Somebody has said when a contract ends; if that changes it, what was proposed for it is past.';

CREATE FUNCTION medusa.hear_notices(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    agreed medusa.contract_revision := medusa.agreed_revision(contract);
    here   text := medusa.here();
    other  text := CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END;
    given  record;
    ends   bigint;
BEGIN
    SELECT min(n.ends_at) AS ends_at, min(n.noted_at) AS noted_at INTO given
    FROM medusa.contract_notice AS n
    WHERE n.contract = hear_notices.contract AND n.given_by = other AND n.told_by = other
        AND agreed.revision IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM medusa.contract_notice AS h
            WHERE h.contract = n.contract AND h.given_by = other AND h.told_by = here);
    IF given.ends_at IS NOT NULL THEN
        ends := greatest(medusa.to_ms(given.ends_at),
            medusa.to_ms(given.noted_at) + agreed.notice_ms);
        PERFORM medusa.note_notice(contract, other, here, medusa.at_ms(ends), given.noted_at);
        PERFORM medusa.owe_statement('ends ' || contract || ' ' || other || ' ' || ends);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.hear_notices(text) IS
    'Say once when a partner''s notice ends, which runs in full from when it came.';

CREATE FUNCTION medusa.give_notice(contract text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    agreed medusa.contract_revision;
    here   text := medusa.here();
    ends   timestamptz;
    now_is timestamptz;
BEGIN
    PERFORM medusa.lock_contract(contract);
    now_is := clock_timestamp();
    agreed := medusa.agreed_revision(contract);
    IF agreed.revision IS NULL THEN
        RAISE EXCEPTION 'contract % is not agreed: withdraw what is proposed', contract
            USING ERRCODE = 'MD001';
    END IF;
    ends := medusa.ends_at(contract);
    IF ends <= medusa.at_ms(medusa.to_ms(now_is) + agreed.notice_ms) OR EXISTS (
        SELECT FROM medusa.contract_notice AS n
        WHERE n.contract = give_notice.contract AND n.given_by = here)
    THEN
        RAISE EXCEPTION 'contract % ends at % by notice already: wait for that', contract, ends
            USING ERRCODE = 'MD001';
    END IF;
    IF agreed.notice_ms > medusa.to_ms(upper(agreed.validity)) - medusa.to_ms(now_is)
    THEN
        RAISE EXCEPTION 'contract % ends at %, before its notice of % ms has run: wait for that',
            contract, upper(agreed.validity), agreed.notice_ms USING ERRCODE = 'MD001';
    END IF;
    ends := medusa.at_ms(medusa.to_ms(now_is) + agreed.notice_ms);
    PERFORM medusa.note_notice(contract, here, here, ends, now_is);
    PERFORM medusa.owe_statement(
        'ends ' || contract || ' ' || here || ' ' || medusa.to_ms(ends));
    RETURN ends;
END $$;
COMMENT ON FUNCTION medusa.give_notice(text) IS
    'End a contract: its notice from now on, or from when the partner hears of it, whichever is '
    'later. When it ends, as far as is known.';

CREATE FUNCTION medusa.take_notice(envelope_id bigint, contract text, statements jsonb)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    agreed   medusa.contract_revision;
    here     text := medusa.here();
    told     record;
    given    timestamptz;
    arrived  timestamptz;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    agreed := medusa.agreed_revision(contract);
    IF agreed.revision IS NOT NULL
        AND (envelope.sender IN (agreed.payer, agreed.provider)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'there is no contract % with % here', contract, envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    -- The giver's come first: what was heard is of what was given.
    FOR told IN SELECT s.*, medusa.at_ms(s.ends_at_ms) AS ends_at
        FROM jsonb_to_recordset(statements) AS s (given_by text, told_by text, ends_at_ms bigint,
            signature text, public_key text)
        ORDER BY s.told_by <> s.given_by, s.ends_at_ms
    LOOP
        IF NOT (told.given_by IN (here, envelope.sender) AND told.told_by IN (here, envelope.sender))
        THEN
            RAISE EXCEPTION 'notice of contract % by %, who has no part in it', contract,
                CASE WHEN told.given_by IN (here, envelope.sender) THEN told.told_by
                    ELSE told.given_by END USING ERRCODE = 'MD001';
        END IF;
        CONTINUE WHEN EXISTS (
            SELECT FROM medusa.contract_notice AS n
            WHERE (n.contract, n.given_by, n.told_by, n.ends_at)
                = (take_notice.contract, told.given_by, told.told_by, told.ends_at));
        IF agreed.revision IS NULL AND (
            SELECT count(*) FROM medusa.contract_notice AS n
            WHERE envelope.sender IN (n.given_by, n.told_by) AND NOT EXISTS (
                SELECT FROM medusa.contract_agreement AS a WHERE a.contract = n.contract)) >= 64
        THEN
            RAISE EXCEPTION '64 notices of % wait for their contracts here: no more is taken',
                envelope.sender USING ERRCODE = 'MD001';
        END IF;
        IF agreed.revision IS NOT NULL AND (
            SELECT count(*) FROM medusa.contract_notice AS n
            WHERE n.contract = take_notice.contract AND n.told_by = told.told_by) >= 16
        THEN
            RAISE EXCEPTION '% has said 16 times when contract % ends: no more is taken',
                told.told_by, contract USING ERRCODE = 'MD001';
        END IF;
        IF told.given_by = here AND told.told_by = envelope.sender THEN
            SELECT min(n.ends_at) INTO given FROM medusa.contract_notice AS n
            WHERE n.contract = take_notice.contract AND n.given_by = here AND n.told_by = here;
            IF given IS NULL THEN
                RAISE EXCEPTION 'nobody has given notice of contract % as % says', contract,
                    envelope.sender USING ERRCODE = 'MD001';
            END IF;
            SELECT coalesce(min(o.acknowledged_at), envelope.received_at) INTO arrived
            FROM medusa.outbox AS o
            WHERE o.receiver = envelope.sender AND o.kind = 'notice'
                AND o.about LIKE 'notice/' || replace(take_notice.contract, '_', '\_') || '/%'
                AND o.put_at >= given - agreed.notice_ms * interval '1 ms';
            -- Its clock may go an hour before this home's.
            IF told.ends_at > greatest(given, arrived + agreed.notice_ms * interval '1 ms'
                + interval '1 hour')
            THEN
                RAISE EXCEPTION '% says that the notice of contract % ends at %, later than it has '
                    'to: it came at %', envelope.sender, contract, told.ends_at, arrived
                    USING ERRCODE = 'MD001';
            END IF;
        END IF;
        PERFORM medusa.note_statement('ends ' || contract || ' ' || told.given_by || ' '
            || told.ends_at_ms, told.told_by, decode(told.signature, 'hex'),
            decode(told.public_key, 'hex'));
        PERFORM medusa.note_notice(contract, told.given_by, told.told_by, told.ends_at,
            envelope.received_at);
    END LOOP;
    IF agreed.revision IS NULL THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || contract,
            jsonb_build_object('contract', contract, 'number', 1));
        RETURN 'kept until what it ends has come';
    END IF;
    PERFORM medusa.hear_notices(contract);
    -- A home that has forgotten what it said is shown it.
    IF EXISTS (
        SELECT FROM medusa.contract_notice AS n
        JOIN medusa.statement AS w ON w.party = n.told_by AND w.statement
            = 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
        WHERE n.contract = take_notice.contract AND n.told_by = envelope.sender
            AND NOT EXISTS (
                SELECT FROM jsonb_to_recordset(statements)
                    AS s (given_by text, told_by text, ends_at_ms bigint)
                WHERE (s.given_by, s.told_by, medusa.at_ms(s.ends_at_ms))
                    = (n.given_by, n.told_by, n.ends_at)))
    THEN
        PERFORM medusa.put_notices(contract, envelope.sender);
    END IF;
    RETURN 'noted';
END $$;
COMMENT ON FUNCTION medusa.take_notice(bigint, text, jsonb) IS
    'A partner says when a contract ends, by whose notice, and who has said so: signatures have been '
    'verified. Kept, up to 64 of a sender, where the contract has not come yet.';

CREATE FUNCTION medusa.holdings_with(partner text)
RETURNS TABLE (contract text, number bigint, revision text, ends_at_ms bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.contract, a.number, a.revision, medusa.to_ms(medusa.ends_at(a.contract))
    FROM (
        SELECT DISTINCT ON (a.contract) a.contract, a.number, a.revision
        FROM medusa.contract_agreement AS a ORDER BY a.contract, a.number DESC
    ) AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    WHERE holdings_with.partner IN (r.payer, r.provider)
        AND medusa.here() <> holdings_with.partner
    ORDER BY a.contract
$$;
COMMENT ON FUNCTION medusa.holdings_with(text) IS
    'What is agreed with a partner, contract by contract, and when each ends by notice.';

CREATE FUNCTION medusa.standing_with(partner text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', h.contract, h.number,
        h.revision, h.ends_at_ms), E'\n' ORDER BY h.contract COLLATE "C"), ''), 'UTF8')), 'hex')
    FROM medusa.holdings_with(standing_with.partner) AS h
$$;
COMMENT ON FUNCTION medusa.standing_with(text) IS
    'One hash of all that is agreed with a partner: equal where both hold the same.';

CREATE FUNCTION medusa.tell_standings() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    partner text;
    told    integer := 0;
BEGIN
    FOR partner IN
        SELECT DISTINCT p.party FROM medusa.contract_revision AS r
        JOIN medusa.contract_agreement AS a ON a.revision = r.revision,
            LATERAL (VALUES (r.payer), (r.provider)) AS p (party)
        WHERE p.party <> medusa.here() ORDER BY 1
    LOOP
        PERFORM medusa.put_out(partner, 'standing', 'standing', jsonb_build_object(
            'incarnation', h.incarnation, 'digest', medusa.standing_with(partner)))
        FROM medusa.home AS h;
        told := told + 1;
    END LOOP;
    RETURN told;
END $$;
COMMENT ON FUNCTION medusa.tell_standings() IS
    'Tell each partner one hash of what is agreed with it; how many.';

CREATE FUNCTION medusa.take_standing(envelope_id bigint, incarnation uuid, digest text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    was      uuid;
BEGIN
    envelope := medusa.end_envelope(envelope_id);
    SELECT p.incarnation INTO was FROM medusa.partner_home AS p
    WHERE p.partner = envelope.sender FOR UPDATE;
    IF was IS DISTINCT FROM take_standing.incarnation THEN
        INSERT INTO medusa.partner_home AS p (partner, incarnation)
        VALUES (envelope.sender, take_standing.incarnation)
        ON CONFLICT (partner) DO UPDATE SET incarnation = EXCLUDED.incarnation,
            since = clock_timestamp();
        PERFORM medusa.write_audit('incarnation', envelope.sender, to_jsonb(was),
            to_jsonb(take_standing.incarnation));
    END IF;
    IF medusa.standing_with(envelope.sender) = take_standing.digest THEN
        RETURN 'the same';
    END IF;
    PERFORM medusa.put_out(envelope.sender, 'holdings', 'holdings/' || page.n, jsonb_build_object(
        'after', page.after, 'until', page.until, 'holdings', page.holdings))
    FROM (
        SELECT paged.n, lag(max(paged.contract)) OVER (ORDER BY paged.n) AS after,
            CASE WHEN lead(paged.n) OVER (ORDER BY paged.n) IS NOT NULL THEN max(paged.contract) END
                AS until,
            coalesce(jsonb_agg(jsonb_build_object('contract', paged.contract, 'number',
                paged.number, 'revision', paged.revision, 'ends_at_ms', paged.ends_at_ms)
                ORDER BY paged.contract) FILTER (WHERE paged.contract IS NOT NULL), '[]') AS holdings
        FROM (
            SELECT coalesce((row_number() OVER (ORDER BY h.contract COLLATE "C") - 1) / 256, 0) AS n,
                h.contract COLLATE "C" AS contract, h.number, h.revision, h.ends_at_ms
            FROM (SELECT 1) AS one LEFT JOIN medusa.holdings_with(envelope.sender) AS h ON true
        ) AS paged
        GROUP BY paged.n
    ) AS page;
    RETURN 'what is held here is told';
END $$;
COMMENT ON FUNCTION medusa.take_standing(bigint, uuid, text) IS
    'A partner tells one hash of what is agreed: if it is another one than here, it is told, 256 '
    'contracts at a time, what this home holds.';

CREATE FUNCTION medusa.take_holdings(envelope_id bigint, differing jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox := medusa.end_envelope(envelope_id);
    here     text := medusa.here();
    agreed   medusa.contract_revision;
    one      record;
    asked    bigint;
    told     bigint;
    more     bigint;
BEGIN
    -- No more than a partner takes of a sender within an hour: the next comparison goes on.
    SELECT count(*) FILTER (WHERE o.kind = 'want'), count(*) FILTER (WHERE o.kind = 'document')
    INTO asked, told FROM medusa.outbox AS o
    WHERE o.receiver = envelope.sender AND o.kind IN ('want', 'document')
        AND (o.acknowledged_at IS NULL OR o.put_at > clock_timestamp() - interval '1 hour');
    FOR one IN SELECT d.* FROM jsonb_to_recordset(differing)
        AS d (contract text, tells_from bigint, wants_from bigint, tells_end boolean)
        ORDER BY d.contract
    LOOP
        PERFORM medusa.check_names(one.contract);
        agreed := medusa.agreed_revision(one.contract);
        CONTINUE WHEN one.wants_from IS NULL AND (envelope.sender <> here
            AND envelope.sender IN (agreed.payer, agreed.provider)) IS NOT TRUE;
        IF one.tells_from IS NOT NULL THEN
            more := least(agreed.number - one.tells_from + 1, 32);
            CONTINUE WHEN told + more > 4096;
            told := told + more;
            PERFORM medusa.tell_agreements(one.contract, envelope.sender, one.tells_from);
        ELSIF one.tells_end THEN
            PERFORM medusa.put_notices(one.contract, envelope.sender);
        END IF;
        IF one.wants_from IS NOT NULL AND asked < 1024 THEN
            asked := asked + 1;
            PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || one.contract,
                jsonb_build_object('contract', one.contract, 'number', one.wants_from));
        END IF;
    END LOOP;
    RETURN 'compared';
END $$;
COMMENT ON FUNCTION medusa.take_holdings(bigint, jsonb) IS
    'A partner tells what it holds: what it lacks is told, what is lacking here is asked for, as '
    'medusa_core/market/converging.py finds it; both no more than it would take within an hour.';

CREATE FUNCTION medusa.expire_proposals() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa.contract_proposal;
    ended    integer := 0;
    now_is   timestamptz := clock_timestamp();
    those    text[];
BEGIN
    -- Locks of contracts come before the audit's; what somebody edits now expires the next time.
    those := ARRAY(
        SELECT o.contract FROM medusa.contract_order AS o
        WHERE o.contract IN (
            SELECT p.contract FROM medusa.contract_proposal AS p
            WHERE p.state = 'open' AND p.expires_at <= now_is)
        ORDER BY o.contract FOR UPDATE SKIP LOCKED);
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.state = 'open' AND p.expires_at <= now_is AND p.contract = ANY (those)
        ORDER BY p.contract, p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'expired');
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END $$;
COMMENT ON FUNCTION medusa.expire_proposals() IS
    'Proposals whose time has passed are open no more; how many.';

CREATE FUNCTION medusa.open_round(
    round_ms bigint, because text DEFAULT 'the time has passed'
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    last   medusa.round;
    now_is timestamptz;
    agreed record;
    those  text[];
BEGIN
    PERFORM medusa.check_length('a round', round_ms, 0);
    LOCK TABLE medusa.round IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM medusa.round ORDER BY number DESC LIMIT 1;
    now_is := clock_timestamp();
    IF medusa.to_ms(last.opened_at) + round_ms > medusa.to_ms(now_is) THEN
        RETURN NULL;
    END IF;
    INSERT INTO medusa.round (number, opened_at, because)
    VALUES (coalesce(last.number, 0) + 1, now_is, open_round.because)
    RETURNING * INTO last;
    -- Locks of contracts come before the audit's; what somebody edits now is active from a later
    -- round on, and keeps this one from nothing.
    those := ARRAY(
        SELECT o.contract FROM medusa.contract_order AS o
        WHERE o.contract IN (
            SELECT a.contract FROM medusa.contract_agreement AS a
            WHERE NOT EXISTS (
                SELECT FROM medusa.contract_activation AS v WHERE v.revision = a.revision))
        ORDER BY o.contract FOR UPDATE SKIP LOCKED);
    FOR agreed IN
        SELECT a.revision, a.contract, a.number FROM medusa.contract_agreement AS a
        WHERE a.agreed_at <= now_is AND a.contract = ANY (those) AND NOT EXISTS (
            SELECT FROM medusa.contract_activation AS v WHERE v.revision = a.revision)
        ORDER BY a.contract, a.number
    LOOP
        INSERT INTO medusa.contract_activation (revision, contract, number, round)
        VALUES (agreed.revision, agreed.contract, agreed.number, last.number);
        PERFORM medusa.claim_subjects(agreed.contract);
        PERFORM medusa.write_audit('activated', agreed.contract, to_jsonb(last.number),
            to_jsonb(agreed.revision));
    END LOOP;
    IF last.number % 10 = 0 THEN
        PERFORM medusa.tell_standings();
    END IF;
    RETURN last.number;
END $$;
COMMENT ON FUNCTION medusa.open_round(bigint, text) IS
    'Open the next round if so much time has passed since the last (0: in any case); its number, '
    'or NULL. Whoever comes at the same time waits and gets NULL. What is agreed is active from it '
    'on, unless somebody is just editing it; every tenth, partners are told one hash of what is '
    'agreed with them.';

CREATE FUNCTION medusa.decoded(given text, format text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN decode(given, format);
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.decoded(text, text) IS 'The bytes that a text stands for; NULL of none.';

CREATE FUNCTION medusa.take_envelope(given jsonb, crowded text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    content  bytea := medusa.decoded(given->>'body', 'base64');
    sealed   bytea := medusa.decoded(given->>'signature', 'hex');
    said_by  text := given->>'sender';
    of_kind  text := given->>'kind';
    room     text := medusa.room_of(given->>'kind');
    address  inet := coalesce(inet_client_addr(), '0.0.0.0');
    too_long boolean := octet_length(content) > 98304;
    whole    bytea;
    found_id bigint;
BEGIN
    -- 1 Is it an envelope, of somebody known? Nothing is kept of what is not.
    IF jsonb_typeof(given) <> 'object'
        OR medusa.is_name(said_by) IS NOT TRUE OR medusa.is_name(given->>'receiver') IS NOT TRUE
        OR (of_kind ~ '^[a-z][a-z_]{0,30}$') IS NOT TRUE
        OR (given->>'nonce' ~ '^[0-9a-f]{32}$') IS NOT TRUE
        OR (given->>'sent_at_ms' ~ '^[0-9]{1,18}$') IS NOT TRUE
        OR (given->>'expires_at_ms' ~ '^[0-9]{1,18}$') IS NOT TRUE
        OR content IS NULL OR (octet_length(sealed) = 64) IS NOT TRUE
    THEN
        RETURN 'refused: this is no envelope';
    ELSIF said_by = medusa.here() THEN
        RETURN 'refused: it is sent in the name of ' || said_by || ', whose home this is';
    ELSIF medusa.key_of(said_by) IS NULL THEN
        RETURN 'refused: no key of ' || said_by || ' is known here: if it is a partner, let the '
            'owner call medusa_api.learn_key';
    END IF;

    -- 2 Is there room? Unverified ones count by where they came from, whoever they name.
    IF (SELECT count(*) >= 256 OR sum(i.bytes) > 8388608 FROM medusa.inbox AS i
            WHERE i.state = 'received' AND i.sender = said_by
                AND medusa.room_of(i.kind) = room AND i.came_from = address)
        OR said_by || '/' || room = ANY (crowded)
        OR (SELECT count(*) >= 2048 OR sum(i.bytes) > 67108864 FROM medusa.inbox AS i
            WHERE i.state = 'received' AND i.came_from = address)
        OR (SELECT count(*) >= 32768 OR sum(i.bytes) > 1073741824 FROM medusa.inbox AS i
            WHERE i.state = 'received')
        OR too_long AND (SELECT count(*) >= 200 FROM medusa.inbox AS i
            WHERE i.state = 'refused' AND i.sender = said_by)
    THEN
        RETURN 'full: send it again later';
    END IF;

    -- 3 Put it in. No row that is there already is touched: this transaction may stay open.
    whole := sha256(convert_to(jsonb_build_array(of_kind, said_by, given->>'receiver',
        given->>'nonce', (given->>'sent_at_ms')::bigint, (given->>'expires_at_ms')::bigint,
        encode(sha256(content), 'hex'), encode(sealed, 'hex'))::text, 'UTF8'));
    INSERT INTO medusa.inbox (sender, receiver, kind, nonce, sent_at_ms, expires_at_ms, body,
        signature, hash, state, reason, ended_at, bytes, came_from)
    VALUES (said_by, given->>'receiver', of_kind, given->>'nonce', (given->>'sent_at_ms')::bigint,
        (given->>'expires_at_ms')::bigint, CASE WHEN too_long THEN '' ELSE content END, sealed,
        whole, CASE WHEN too_long THEN 'refused' ELSE 'received' END,
        CASE WHEN too_long THEN 'it is longer than 96 KiB' END,
        CASE WHEN too_long THEN clock_timestamp() END, octet_length(content), address)
    ON CONFLICT (hash) DO NOTHING RETURNING inbox.envelope_id INTO found_id;
    IF found_id IS NULL
        AND (SELECT count(*) FROM (SELECT FROM medusa.inbox_repeat LIMIT 10000) AS r) < 10000
    THEN
        INSERT INTO medusa.inbox_repeat (envelope_id)
        SELECT i.envelope_id FROM medusa.inbox AS i WHERE i.hash = whole;
    END IF;
    RETURN CASE WHEN too_long THEN 'refused: it is longer than 96 KiB' ELSE 'taken' END;
END $$;
COMMENT ON FUNCTION medusa.take_envelope(jsonb, text[]) IS
    'Put one envelope into the inbox, as it is: taken (also if it came before), refused or full. '
    'Crowded are rooms of senders (sender/room) of which as much is remembered as may be.';

CREATE FUNCTION medusa.take_envelopes(envelopes jsonb) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given   jsonb;
    crowded text[];
    answers text[] := '{}';
BEGIN
    IF (pg_column_size(envelopes) <= 16777216 AND jsonb_typeof(envelopes) = 'array'
        AND jsonb_array_length(envelopes) <= 64) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'envelopes come in a list of 64 at most, 16 MiB in all: send fewer'
            USING ERRCODE = 'MD001';
    END IF;
    crowded := ARRAY(
        SELECT n.sender || '/' || n.room FROM (
            SELECT DISTINCT e->>'sender' AS sender, medusa.room_of(e->>'kind') AS room
            FROM jsonb_array_elements(envelopes) AS e) AS n
        WHERE (SELECT count(*) FROM medusa.inbox AS i
            WHERE i.state IN ('verified', 'handled') AND i.sender = n.sender
                AND medusa.room_of(i.kind) = n.room) >= 32768);
    FOR given IN SELECT e FROM jsonb_array_elements(envelopes) AS e LOOP
        answers := answers || medusa.take_envelope(given, crowded);
    END LOOP;
    PERFORM pg_notify('medusa_progress', '');
    RETURN answers;
END $$;
COMMENT ON FUNCTION medusa.take_envelopes(jsonb) IS
    'For partners: put envelopes into the inbox, as they are, and no more: 64 at a time, 96 KiB '
    'each, of somebody whose key is known. Of a sender 256 wait in each of its two rooms from one '
    'address, and 32,768 are remembered until they are stale. An answer to each: taken (also if it '
    'came before), refused or full.';

CREATE FUNCTION medusa.tidy_inbox() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH again AS (
        DELETE FROM medusa.inbox_repeat AS r WHERE r.repeat_id IN (
            SELECT o.repeat_id FROM medusa.inbox_repeat AS o LIMIT 10000 FOR UPDATE SKIP LOCKED)
        RETURNING r.envelope_id
    )
    UPDATE medusa.inbox AS i SET repeats = i.repeats + n.times
    FROM (SELECT a.envelope_id, count(*) AS times FROM again AS a GROUP BY a.envelope_id) AS n
    WHERE i.envelope_id = n.envelope_id;
    DELETE FROM medusa.inbox AS i WHERE i.envelope_id IN (
        SELECT o.envelope_id FROM medusa.inbox AS o WHERE o.envelope_id IN (
            SELECT n.envelope_id FROM (
                SELECT r.envelope_id, r.ended_at, row_number() OVER (
                    PARTITION BY r.sender ORDER BY r.envelope_id DESC) AS place
                FROM medusa.inbox AS r WHERE r.state = 'refused') AS n
            WHERE n.place > 100 OR n.ended_at < clock_timestamp() - medusa.messages_kept())
        FOR UPDATE SKIP LOCKED);
    DELETE FROM medusa.inbox AS i WHERE i.envelope_id IN (
        SELECT o.envelope_id FROM medusa.inbox AS o
        WHERE o.state = 'handled' AND o.expires_at_ms < medusa.to_ms(clock_timestamp())
        FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION medusa.tidy_inbox() IS
    'Count what came again; keep the last 100 refused envelopes of a sender, and what would count '
    'again if it came again. What somebody has hold of waits for the next time.';

CREATE FUNCTION medusa.verify_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    UPDATE medusa.inbox AS i SET state = 'verified'
    WHERE i.envelope_id = verify_envelope.envelope_id AND i.state = 'received'
    RETURNING * INTO envelope;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM medusa.charge(envelope);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.verify_envelope(bigint) IS
    'An envelope is its sender''s, and waits to be handled; its nonce counts once. Refused beyond '
    'its sender''s share.';

CREATE FUNCTION medusa.handle_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.inbox AS i SET state = 'handled', body = '', ended_at = clock_timestamp()
    WHERE i.envelope_id = handle_envelope.envelope_id AND i.state = 'verified';
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.handle_envelope(bigint) IS
    'A verified envelope has been handled; false if it was before.';

CREATE FUNCTION medusa.refuse_envelope(envelope_id bigint, reason text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    refused medusa.inbox;
    said    text := left(refuse_envelope.reason, 500);
    alike   bigint;
    last_id bigint;
BEGIN
    SELECT * INTO refused FROM medusa.inbox AS i
    WHERE i.envelope_id = refuse_envelope.envelope_id AND i.state IN ('received', 'verified')
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT count(*), max(i.envelope_id) INTO alike, last_id FROM medusa.inbox AS i
    WHERE i.state = 'refused' AND i.sender = refused.sender AND i.kind = refused.kind
        AND i.reason = said AND i.ended_at > clock_timestamp() - interval '1 hour';
    IF alike >= (CASE WHEN said LIKE 'too much: %' THEN 1 ELSE 16 END) THEN
        UPDATE medusa.inbox AS i SET repeats = i.repeats + 1 WHERE i.envelope_id = last_id;
        DELETE FROM medusa.inbox AS i WHERE i.envelope_id = refused.envelope_id;
    ELSE
        UPDATE medusa.inbox AS i SET state = 'refused', reason = said, body = '',
            ended_at = clock_timestamp()
        WHERE i.envelope_id = refused.envelope_id;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.refuse_envelope(bigint, text) IS
    'An envelope counts for nothing, and why; false if it has been handled. After 16 alike of a '
    'sender within an hour, and after one that was beyond its share, the others are only counted.';

CREATE FUNCTION medusa.keep_envelope(envelope_id bigint, reason text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
    UPDATE medusa.inbox AS i SET reason = left(keep_envelope.reason, 500)
    WHERE i.envelope_id = keep_envelope.envelope_id AND i.state = 'received'
        AND i.reason IS DISTINCT FROM left(keep_envelope.reason, 500)
$$;
COMMENT ON FUNCTION medusa.keep_envelope(bigint, text) IS
    'An envelope cannot be handled yet, and why; it is tried again until it is stale.';

CREATE FUNCTION medusa.seal_message(
    message_id bigint, nonce text, sent_at_ms bigint, expires_at_ms bigint, signature bytea
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.outbox AS o SET nonce = seal_message.nonce, sent_at_ms = seal_message.sent_at_ms,
        expires_at_ms = seal_message.expires_at_ms, signature = seal_message.signature
    WHERE o.message_id = seal_message.message_id AND o.acknowledged_at IS NULL
        AND (o.nonce IS NULL OR o.expires_at_ms < medusa.to_ms(clock_timestamp()) + 60000);
END $$;
COMMENT ON FUNCTION medusa.seal_message(bigint, text, bigint, bigint, bytea) IS
    'A message is signed as an envelope; anew when its time has passed before it arrived.';

CREATE FUNCTION medusa.acknowledge_message(message_id bigint, problem text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.outbox AS o SET problem = left(acknowledge_message.problem, 500),
        acknowledged_at = CASE WHEN acknowledge_message.problem IS NULL THEN clock_timestamp() END,
        body = CASE WHEN acknowledge_message.problem IS NULL THEN '' ELSE o.body END
    WHERE o.message_id = acknowledge_message.message_id AND o.acknowledged_at IS NULL
        AND (acknowledge_message.problem IS NULL OR o.problem IS DISTINCT FROM
            left(acknowledge_message.problem, 500));
END $$;
COMMENT ON FUNCTION medusa.acknowledge_message(bigint, text) IS
    'A message lies in the partner''s inbox (problem NULL), or why it does not.';

CREATE FUNCTION medusa.pause_delivery(partner text, problem text, jitter double precision)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    wait_s double precision := 0.5 + least(greatest(coalesce(jitter, 0), 0), 1);
BEGIN
    PERFORM medusa.check_names(pause_delivery.partner);
    INSERT INTO medusa.delivery_pause AS p (partner, failed, since, tries_at, problem)
    VALUES (pause_delivery.partner, 1, clock_timestamp(),
        clock_timestamp() + wait_s * interval '1 s', left(pause_delivery.problem, 500))
    ON CONFLICT ON CONSTRAINT delivery_pause_pkey DO UPDATE SET failed = p.failed + 1,
        problem = EXCLUDED.problem,
        tries_at = clock_timestamp() + wait_s * least(1 << least(p.failed, 6), 60)
            * interval '1 s';
END $$;
COMMENT ON FUNCTION medusa.pause_delivery(text, text, double precision) IS
    'A partner''s inbox took nothing: it is left alone for a second, twice as long each time, up '
    'to a minute, by half of it more or less as jitter (0 to 1) says.';

CREATE FUNCTION medusa.resume_delivery(partner text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$$ DELETE FROM medusa.delivery_pause AS p WHERE p.partner = resume_delivery.partner $$;
COMMENT ON FUNCTION medusa.resume_delivery(text) IS 'A partner''s inbox takes messages.';

CREATE FUNCTION medusa.tidy_outbox() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa.outbox AS o WHERE o.message_id IN (
        SELECT m.message_id FROM medusa.outbox AS m
        WHERE m.acknowledged_at < clock_timestamp() - CASE WHEN m.about LIKE 'proposal/%'
                THEN interval '62 days' ELSE interval '1 hour' END
            AND (m.kind <> 'notice' OR EXISTS (
                SELECT FROM medusa.outbox AS e
                WHERE e.receiver = m.receiver AND e.about = m.about
                    AND e.acknowledged_at < m.acknowledged_at))
            OR m.acknowledged_at IS NULL AND m.kind IN ('offer', 'answer')
                AND m.put_at < clock_timestamp() - interval '1 day'
        FOR UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION medusa.tidy_outbox() IS
    'Forget what partners have: proposals when they cannot come back any more, all else after an '
    'hour, but not when the first notice of a contract came, on which depends when it ends; and offers and answers that could not be sent for a day.';

CREATE FUNCTION medusa.end_guests(open_ms bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended integer;
BEGIN
    SELECT count(*) FILTER (WHERE pg_terminate_backend(s.pid)) INTO ended
    FROM pg_stat_activity AS s
    WHERE s.datname = current_database() AND s.usename = current_database() || '_reader'
        AND s.pid <> pg_backend_pid()
        AND s.xact_start < clock_timestamp() - greatest(open_ms, 0) * interval '1 ms';
    RETURN ended;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN 0;  -- a home whose keeper was not given this right; the role's own settings remain
END $$;
COMMENT ON FUNCTION medusa.end_guests(bigint) IS
    'End sessions of partners'' logins that have a transaction open for longer, whatever these '
    'have set; how many.';

CREATE FUNCTION medusa.tidy_partners(open_ms bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa.tidy_inbox();
    PERFORM medusa.tidy_outbox();
    RETURN medusa.tidy_market(1000) + medusa.end_guests(open_ms);
END $$;
COMMENT ON FUNCTION medusa.tidy_partners(bigint) IS
    'Housekeeping of what partners send and are sent, a piece of it; how many offers and answers '
    'went, and sessions that had a transaction open for longer than open_ms.';

CREATE FUNCTION medusa.put_message(receiver text, kind text, about text, body bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
#variable_conflict use_column
DECLARE
    found bigint;
BEGIN
    PERFORM medusa.check_names(put_message.receiver);
    IF (put_message.kind ~ '^[a-z][a-z_]{0,30}$' AND octet_length(put_message.body) <= 98304
        AND char_length(put_message.about) BETWEEN 1 AND 200) IS NOT TRUE
        OR put_message.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice',
            'refusal', 'standing', 'holdings')
    THEN
        RAISE EXCEPTION 'a message has a kind, says what it is about, and is 96 KiB long at most'
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (put_message.receiver, put_message.kind, put_message.about, put_message.body)
    ON CONFLICT (receiver, about) WHERE acknowledged_at IS NULL DO NOTHING
    RETURNING message_id INTO found;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa.put_message(text, text, text, bytea) IS
    'For jobs: tell a partner something of a kind of its own; its number, NULL if the same waits.';

CREATE VIEW medusa_api.contract WITH (security_invoker = true) AS
    WITH chosen AS (
        SELECT DISTINCT ON (c.contract) c.contract, c.revision, c.place, c.expires_at
        FROM (
            SELECT p.contract, p.revision, CASE p.proposed_by WHEN h.participant THEN 1 ELSE 3 END
                AS place, p.expires_at, 0::bigint AS number
            FROM medusa.contract_proposal AS p CROSS JOIN medusa.home AS h
            WHERE p.state = 'open'
            UNION ALL
            SELECT a.contract, a.revision, 2, NULL, a.number FROM medusa.contract_agreement AS a
        ) AS c
        ORDER BY c.contract, c.place, c.number DESC
    )
    SELECT c.contract,
        CASE c.place WHEN 1 THEN 'proposed' WHEN 3 THEN 'asked' ELSE
            CASE WHEN least(upper(r.validity), n.ends_at) <= clock_timestamp() THEN 'ended'
                WHEN v.revision = c.revision AND lower(r.validity) <= clock_timestamp()
                    THEN 'in force'
                ELSE 'agreed' END END AS state,
        r.number, r.kind, r.payer, r.provider, r.currency, r.validity, r.settlement_ms, r.notice_ms,
        r.price_low, r.price_high, r.price_step, r.fragments, r.load_max, r.billed, r.recovery,
        r.method, r.replicas, r.bound_ms, r.penalty, r.hold_ms_max, r.stream, r.price, r.per,
        r.instead, c.expires_at, n.ends_at, c.revision, v.revision AS active_revision,
        o.revision AS partner_proposes
    FROM chosen AS c
    JOIN medusa.contract_revision AS r ON r.revision = c.revision
    CROSS JOIN medusa.home AS h
    LEFT JOIN LATERAL (
        SELECT a.revision FROM medusa.contract_activation AS a WHERE a.contract = c.contract
        ORDER BY a.number DESC LIMIT 1) AS v ON true
    CROSS JOIN LATERAL (SELECT medusa.ends_at(c.contract) AS ends_at) AS n
    LEFT JOIN medusa.contract_proposal AS o ON o.contract = c.contract AND o.state = 'open'
        AND o.proposed_by <> h.participant;
COMMENT ON VIEW medusa_api.contract IS
    'This home''s copy of each contract, which its owner edits: what it proposes (state proposed), '
    'else what both agreed (agreed, in force from the next round on, or ended), else what a '
    'partner asks for (asked). UPDATE proposes, INSERT proposes a new one, DELETE withdraws or '
    'gives notice.';

CREATE VIEW medusa_api.contract_in_force WITH (security_invoker = true) AS
    SELECT r.contract, v.round, r.number, r.revision, r.document, r.kind, r.payer, r.provider,
        r.currency, tstzrange(lower(r.validity), least(upper(r.validity), n.ends_at)) AS validity
    FROM medusa.contract_activation AS v
    JOIN medusa.contract_revision AS r ON r.revision = v.revision
    CROSS JOIN LATERAL (SELECT medusa.ends_at(r.contract) AS ends_at) AS n
    WHERE NOT EXISTS (
        SELECT FROM medusa.contract_activation AS later
        WHERE later.contract = v.contract AND later.number > v.number)
        AND lower(r.validity) <= clock_timestamp()
        AND least(upper(r.validity), n.ends_at) > clock_timestamp();
COMMENT ON VIEW medusa_api.contract_in_force IS
    'What contracts say that are active and valid now, and from which round on.';

CREATE VIEW medusa_api.contract_proposals WITH (security_invoker = true) AS
    SELECT p.contract, p.proposal_id, p.proposed_by, CASE WHEN p.state = 'agreed' AND NOT EXISTS (
            SELECT FROM medusa.contract_agreement AS a WHERE a.revision = p.revision)
            THEN 'void' ELSE p.state END AS state, r.number, p.made_at, p.expires_at,
        p.ended_at, p.who, p.because, (
            SELECT string_agg(format('%s %s -> %s', f.key, coalesce(b.value, 'nothing'),
                coalesce(f.value, 'nothing')), ', ' ORDER BY f.key)
            FROM jsonb_each_text(to_jsonb(r) - ARRAY['revision', 'document', 'number', 'supersedes',
                'known_at']) AS f (key, value)
            LEFT JOIN jsonb_each_text(to_jsonb(s)) AS b (key, value) ON b.key = f.key
            WHERE s.revision IS NOT NULL AND f.value IS DISTINCT FROM b.value) AS changes,
        ARRAY(SELECT DISTINCT g.party FROM medusa.contract_signature AS g WHERE g.revision = p.revision
            ORDER BY g.party) AS signed_by, p.revision
    FROM medusa.contract_proposal AS p
    JOIN medusa.contract_revision AS r ON r.revision = p.revision
    LEFT JOIN medusa.contract_revision AS s ON s.revision = r.supersedes;
COMMENT ON VIEW medusa_api.contract_proposals IS
    'Edits of either party, what they change, and what became of them.';

CREATE VIEW medusa_api.contract_history WITH (security_invoker = true) AS
    SELECT r.contract, r.number, a.agreed_at, v.round, v.activated_at, r.revision, r.document,
        ARRAY(SELECT DISTINCT g.party FROM medusa.contract_signature AS g WHERE g.revision = r.revision
            ORDER BY g.party) AS signed_by
    FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    LEFT JOIN medusa.contract_activation AS v ON v.revision = a.revision;
COMMENT ON VIEW medusa_api.contract_history IS
    'Every agreed revision of every contract, and from which round on it was active here.';

CREATE VIEW medusa_api.contract_notices WITH (security_invoker = true) AS
    SELECT contract, given_by, told_by, ends_at, noted_at FROM medusa.contract_notice;
COMMENT ON VIEW medusa_api.contract_notices IS 'Who ends which contract, as either party has said; medusa_api.contract says when it ends.';

CREATE VIEW medusa_api.contract_voids WITH (security_invoker = true) AS
    SELECT contract, number, revision, because, voided_at FROM medusa.contract_void;
COMMENT ON VIEW medusa_api.contract_voids IS
    'Agreements that count no more here, and why: both homes keep another one, or none.';

CREATE VIEW medusa_api.party_keys WITH (security_invoker = true) AS
    SELECT k.participant, encode(k.public_key, 'hex') AS public_key, k.learned_at, k.learned_by,
        k.because, NOT k.is_past AND NOT EXISTS (
            SELECT FROM medusa.party_key AS n
            WHERE n.participant = k.participant AND n.key_id > k.key_id
                AND NOT n.is_past) AS counts, d.disowned_at
    FROM medusa.party_key AS k
    LEFT JOIN medusa.key_disowned AS d ON d.public_key = k.public_key;
COMMENT ON VIEW medusa_api.party_keys IS
    'By which keys this home knows itself and its partners, now and before.';

CREATE VIEW medusa_api.rounds WITH (security_invoker = true) AS
    SELECT number, opened_at, opened_by, because FROM medusa.round;
COMMENT ON VIEW medusa_api.rounds IS 'Rounds of this home.';

CREATE VIEW medusa_api.inbox WITH (security_invoker = true) AS
    SELECT i.envelope_id, i.sender, i.kind, i.state, i.reason, i.repeats + (
            SELECT count(*) FROM medusa.inbox_repeat AS r WHERE r.envelope_id = i.envelope_id)
            AS repeats,
        i.received_at, i.ended_at, i.bytes, i.nonce
    FROM medusa.inbox AS i;
COMMENT ON VIEW medusa_api.inbox IS
    'Envelopes that came: received, verified, handled, or refused and why.';

CREATE VIEW medusa_api.outbox WITH (security_invoker = true) AS
    SELECT message_id, receiver, kind, about, put_at, acknowledged_at, problem FROM medusa.outbox;
COMMENT ON VIEW medusa_api.outbox IS 'What partners are told, and whether they have it.';

CREATE VIEW medusa_api.audit WITH (security_invoker = true) AS
    SELECT audit_id, at, who, what, subject, before, after FROM medusa.audit;
COMMENT ON VIEW medusa_api.audit IS
    'What was done about agreements; medusa.verify_audit() says whether it is whole.';

CREATE FUNCTION medusa.edited_terms(old medusa_api.contract, new medusa_api.contract)
RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
BEGIN
    IF old.contract IS NOT NULL AND (new.contract, new.kind, new.payer, new.provider)
        IS DISTINCT FROM (old.contract, old.kind, old.payer, old.provider)
    THEN
        RAISE EXCEPTION 'contract % keeps its name, kind, payer and provider: make another one',
            old.contract USING ERRCODE = 'MD001';
    END IF;
    IF (new.state, new.number, new.ends_at, new.revision, new.active_revision, new.partner_proposes)
        IS DISTINCT FROM (old.state, old.number, old.ends_at, old.revision, old.active_revision,
            old.partner_proposes)
    THEN
        RAISE EXCEPTION 'state, number, ends_at, revision, active_revision and partner_proposes of '
            'contract % follow from what is agreed: edit its terms', new.contract
            USING ERRCODE = 'MD001';
    END IF;
    terms.contract := new.contract;
    terms.kind := new.kind;
    terms.payer := new.payer;
    terms.provider := new.provider;
    terms.currency := new.currency;
    terms.validity := new.validity;
    terms.settlement_ms := new.settlement_ms;
    terms.notice_ms := new.notice_ms;
    terms.price_low := new.price_low;
    terms.price_high := new.price_high;
    terms.price_step := new.price_step;
    terms.fragments := new.fragments;
    terms.load_max := new.load_max;
    terms.billed := new.billed;
    terms.recovery := new.recovery;
    terms.method := new.method;
    terms.replicas := new.replicas;
    terms.bound_ms := new.bound_ms;
    terms.penalty := new.penalty;
    terms.hold_ms_max := new.hold_ms_max;
    terms.stream := new.stream;
    terms.price := new.price;
    terms.per := new.per;
    terms.instead := new.instead;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.edited_terms(medusa_api.contract, medusa_api.contract) IS
    'What an edit of a row makes of its terms (old is NULL where the contract is new); refused where '
    'it changes what is no term.';

CREATE FUNCTION medusa.edit_contract() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision;
    stands record;
BEGIN
    -- The row was read before the lock: what another edit has made of it since is not passed over.
    PERFORM medusa.lock_contract(CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END);
    SELECT c.revision, c.state, c.partner_proposes, c.active_revision INTO stands
    FROM medusa_api.contract AS c
    WHERE c.contract = CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END;
    IF TG_OP = 'INSERT' AND stands.state <> 'asked' THEN
        RAISE EXCEPTION 'contract % is there already (%): UPDATE it, or choose another name',
            NEW.contract, stands.state USING ERRCODE = 'MD001';
    END IF;
    IF TG_OP <> 'INSERT' AND (stands.revision, stands.state, stands.partner_proposes)
        IS DISTINCT FROM (OLD.revision, OLD.state, OLD.partner_proposes)
    THEN
        RAISE EXCEPTION 'contract % was edited meanwhile: read it again', OLD.contract
            USING ERRCODE = 'MD002';
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM medusa.end_contract(OLD.contract);
        RETURN OLD;
    END IF;
    terms := medusa.edited_terms(OLD, NEW);
    PERFORM medusa.propose(terms,
        CASE WHEN TG_OP = 'INSERT' OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
            THEN coalesce(NEW.expires_at, clock_timestamp() + interval '7 days')
            ELSE clock_timestamp() + interval '7 days' END,
        'edited in SQL');
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.edit_contract() IS
    'What UPDATE, INSERT and DELETE of a contract mean: proposals, withdrawal, notice.';

CREATE FUNCTION medusa.end_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own medusa.contract_proposal;
BEGIN
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = end_contract.contract AND p.proposed_by = medusa.here()
        AND p.state = 'open';
    IF FOUND THEN
        PERFORM medusa.end_proposal(own, 'withdrawn');
        PERFORM pg_notify('medusa_progress', '');
    ELSIF (medusa.agreed_revision(contract)).revision IS NOT NULL THEN
        PERFORM medusa.give_notice(contract);
    ELSE
        RAISE EXCEPTION 'contract % is what the partner asks for: leave it, and it expires',
            contract USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.end_contract(text) IS
    'Withdraw what this home proposes, or, if it proposes nothing, give notice of what is agreed.';

CREATE TRIGGER edit INSTEAD OF INSERT OR UPDATE OR DELETE ON medusa_api.contract
    FOR EACH ROW EXECUTE FUNCTION medusa.edit_contract();

CREATE FUNCTION medusa_api.accept_contract(contract text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa.contract_proposal;
    terms    medusa.contract_revision;
BEGIN
    PERFORM medusa.lock_contract(contract);
    SELECT * INTO proposal FROM medusa.contract_proposal AS p
    WHERE p.contract = accept_contract.contract AND p.proposed_by <> medusa.here()
        AND p.state = 'open' AND p.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the partner proposes nothing for contract % now: look at '
            'medusa_api.contract_proposals', contract USING ERRCODE = 'MD001';
    END IF;
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = proposal.revision;
    RETURN medusa.propose(terms, proposal.expires_at, 'accepted in SQL');
END $$;
COMMENT ON FUNCTION medusa_api.accept_contract(text) IS
    'Propose what the partner proposes for a contract, and so accept it; returns the revision.';

CREATE FUNCTION medusa_api.withdraw_contract(contract text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    own medusa.contract_proposal;
BEGIN
    PERFORM medusa.lock_contract(contract);
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = withdraw_contract.contract AND p.proposed_by = medusa.here()
        AND p.state = 'open';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this home proposes nothing for contract %: to end what is agreed, DELETE '
            'it',
            contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.end_proposal(own, 'withdrawn');
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_api.withdraw_contract(text) IS
    'Take back what this home proposes for a contract; what is agreed stays.';

ALTER TABLE medusa.contract_revision ENABLE ROW LEVEL SECURITY;
ALTER TABLE medusa.contract_proposal ENABLE ROW LEVEL SECURITY;
ALTER TABLE medusa.contract_signature ENABLE ROW LEVEL SECURITY;
CREATE POLICY agreed_for_all ON medusa.contract_revision FOR SELECT USING (EXISTS (
    SELECT FROM medusa.contract_agreement AS a WHERE a.revision = contract_revision.revision));
CREATE POLICY all_for_owner_and_job ON medusa.contract_revision FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
CREATE POLICY all_for_owner_and_job ON medusa.contract_proposal FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
CREATE POLICY agreed_for_all ON medusa.contract_signature FOR SELECT USING (EXISTS (
    SELECT FROM medusa.contract_agreement AS a WHERE a.revision = contract_signature.revision));
CREATE POLICY all_for_owner_and_job ON medusa.contract_signature FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
COMMENT ON POLICY agreed_for_all ON medusa.contract_revision IS
    'Who may look at contracts sees what is agreed.';
COMMENT ON POLICY agreed_for_all ON medusa.contract_signature IS
    'Who may look at contracts sees who signed what is agreed.';
COMMENT ON POLICY all_for_owner_and_job ON medusa.contract_revision IS
    'What is only proposed is the owner''s and its program''s to see.';
COMMENT ON POLICY all_for_owner_and_job ON medusa.contract_proposal IS
    'What is only proposed is the owner''s and its program''s to see.';
COMMENT ON POLICY all_for_owner_and_job ON medusa.contract_signature IS
    'What is only proposed is the owner''s and its program''s to see.';

CREATE FUNCTION medusa.grant_agreements_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        IF kind = 'reader' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.take_envelopes TO %I', role);
            CONTINUE;
        END IF;
        EXECUTE format('GRANT SELECT ON medusa.home, medusa.contract_revision, '
            'medusa.contract_proposal, medusa.contract_signature, medusa.contract_agreement, '
            'medusa.contract_activation, medusa.contract_notice, medusa.round, '
            'medusa_api.contract, medusa_api.contract_in_force, medusa_api.contract_history, '
            'medusa_api.contract_notices, medusa_api.rounds TO %I', role);
        IF kind = 'airflow' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.open_round TO %I', role);
        ELSIF kind = 'job' THEN
            EXECUTE format('GRANT SELECT ON medusa.party_key, medusa.inbox, medusa.outbox, '
                'medusa.audit, medusa.audit_head, medusa.contract_claim, '
                'medusa_api.contract_proposals, medusa_api.party_keys, medusa_api.inbox, '
                'medusa_api.outbox, medusa_api.audit TO %I', role);
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.learn_first_key, medusa.key_of, '
                'medusa.propose_document, medusa.sign_contract, medusa.take_document, '
                'medusa.take_withdrawal, medusa.take_let_go, medusa.take_want, medusa.take_notice, '
                'medusa.expire_proposals, medusa.open_round, medusa.verify_envelope, '
                'medusa.handle_envelope, medusa.refuse_envelope, medusa.keep_envelope, '
                'medusa.seal_message, medusa.acknowledge_message, medusa.put_message, '
                'medusa.verify_audit, medusa.audit_hash TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_agreements_to_roles() IS
    'Jobs sign, send and take documents; analysts and Airflow see what is agreed; a partner''s '
    'reader may put envelopes into the inbox, and sees nothing.';
SELECT medusa.grant_agreements_to_roles();
-- Load: what CPU this participant's drivers spend, on what; and what load costs it ----------------
-- Both are private: the owner and its jobs see them, nobody else of the home, and no partner.

CREATE TYPE medusa.load_kind AS ENUM (
    'work', 'deciding', 'delivery', 'housekeeping', 'starting', 'unattributed');

CREATE TABLE medusa.load_sample (
    sample_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    driver    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    lane      medusa.lane NOT NULL,
    length_ms bigint NOT NULL CHECK (length_ms > 0),
    total_us  bigint NOT NULL CHECK (total_us >= 0),
    ended_at  timestamptz NOT NULL,
    UNIQUE (driver, number)
);
COMMENT ON TABLE medusa.load_sample IS
    'What a driver spent in one period, some seconds long; insert-only until it is older than kept.';
COMMENT ON COLUMN medusa.load_sample.driver IS 'The process: its samples are numbered.';
COMMENT ON COLUMN medusa.load_sample.total_us IS 'CPU of its whole process tree.';
COMMENT ON COLUMN medusa.load_sample.ended_at IS 'When the period ended, by this home''s clock.';
CREATE INDEX load_sample_ended ON medusa.load_sample (ended_at);
COMMENT ON INDEX medusa.load_sample_ended IS 'The samples of a time, and those to be trimmed.';

CREATE TABLE medusa.load_part (
    sample_id bigint NOT NULL REFERENCES medusa.load_sample ON DELETE CASCADE,
    kind      medusa.load_kind NOT NULL,
    fragment  text COLLATE "C" REFERENCES medusa.fragment,
    partition integer,
    cause     medusa.cause,
    cpu_us    bigint NOT NULL CHECK (cpu_us > 0),
    CHECK ((kind = 'work') = (fragment IS NOT NULL)
        AND (fragment IS NULL) = (partition IS NULL)
        AND (fragment IS NULL) = (cause IS NULL))
);
COMMENT ON TABLE medusa.load_part IS
    'On what a sample''s CPU was spent: fragments by cause, and kinds that are no fragment''s.';
CREATE UNIQUE INDEX load_part_once
    ON medusa.load_part (sample_id, fragment, partition, cause, kind) NULLS NOT DISTINCT;
COMMENT ON INDEX medusa.load_part_once IS
    'One row for a fragment, partition and cause, or another kind; the parts of a sample.';

CREATE TABLE medusa.load_retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    keep    interval NOT NULL DEFAULT '30 days'
        CHECK (keep >= '1 hour' AND keep <= '3650 days')
);
COMMENT ON TABLE medusa.load_retention IS 'How long samples of load are kept: one row.';
INSERT INTO medusa.load_retention DEFAULT VALUES;

CREATE FUNCTION medusa.load_kept() RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT r.keep FROM medusa.load_retention AS r), '30 days'::interval) $$;
COMMENT ON FUNCTION medusa.load_kept() IS 'For how long samples of load stay.';

CREATE FUNCTION medusa.guard_load() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'load_sample' THEN
        IF OLD.ended_at < clock_timestamp() - medusa.load_kept() THEN
            RETURN OLD;
        END IF;
    ELSIF NOT EXISTS (SELECT FROM medusa.load_sample AS s WHERE s.sample_id = OLD.sample_id) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of % is refused: samples of load stay for as long as '
        'medusa.load_retention says', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa.guard_load() IS 'Raises: a sample goes when it is older than kept.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.load_sample
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_load();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.load_sample
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.load_part
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_load();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.load_part
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.trim_loads(samples_max integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - medusa.load_kept();
    gone   bigint;
BEGIN
    DELETE FROM medusa.load_sample AS s WHERE s.sample_id IN (
        SELECT o.sample_id FROM medusa.load_sample AS o
        WHERE o.ended_at < before
        ORDER BY o.ended_at LIMIT greatest(samples_max, 0)
        FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
COMMENT ON FUNCTION medusa.trim_loads(integer) IS
    'Let the oldest samples go that are older than kept, so many at most; how many went.';

CREATE FUNCTION medusa.record_load(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked  record;
    number bigint;
    parted numeric;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (driver text, number bigint, lane text,
        length_ms bigint, ended_ago_ms bigint, total_us bigint, parts jsonb);
    SELECT coalesce(sum(p.cpu_us), 0) INTO parted
    FROM jsonb_to_recordset(asked.parts) AS p (cpu_us bigint);
    IF parted IS DISTINCT FROM asked.total_us OR coalesce(asked.ended_ago_ms, -1) < 0
        OR asked.ended_ago_ms > 86400000
    THEN
        RAISE EXCEPTION 'a sample of load is refused: its parts are % us of % us, and it ended % ms '
            'ago: let parts add up, and send it within a day', parted, asked.total_us,
            asked.ended_ago_ms USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.load_sample AS s (driver, number, lane, length_ms, total_us, ended_at)
    VALUES (asked.driver, asked.number, asked.lane::medusa.lane, asked.length_ms, asked.total_us,
        clock_timestamp() - asked.ended_ago_ms * interval '1 millisecond')
    ON CONFLICT ON CONSTRAINT load_sample_driver_number_key DO NOTHING
    RETURNING s.sample_id INTO number;
    IF number IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.load_part (sample_id, kind, fragment, partition, cause, cpu_us)
    SELECT number, p.kind::medusa.load_kind, p.fragment, p.partition, p.cause::medusa.cause,
        p.cpu_us
    FROM jsonb_to_recordset(asked.parts) AS p (kind text, fragment text, partition integer,
        cause text, cpu_us bigint);
    PERFORM medusa.trim_loads(100);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.record_load(jsonb) IS
    'Write down what a driver spent in a period, and let old samples go; false: this was known.';

CREATE TYPE medusa.cost_kind AS ENUM ('queue', 'piecewise');

CREATE TABLE medusa.cost_function (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      medusa.cost_kind NOT NULL,
    capacity  double precision,
    scale     double precision,
    points    double precision[],
    threshold double precision NOT NULL,
    currency  text COLLATE "C" NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by    text NOT NULL DEFAULT session_user
);
COMMENT ON TABLE medusa.cost_function IS
    'What load costs this participant, as its owner has declared it; insert-only, the newest counts.';
COMMENT ON COLUMN medusa.cost_function.capacity IS
    'Of a queue: CPU seconds per second that there are.';
COMMENT ON COLUMN medusa.cost_function.scale IS
    'Of a queue: currency per hour, times rho / (1 - rho), rho = load / capacity.';
COMMENT ON COLUMN medusa.cost_function.points IS
    'Of a piecewise linear function: {{load, cost}, ...}, cost in currency per hour.';
COMMENT ON COLUMN medusa.cost_function.threshold IS 'CPU seconds per second: more is too much.';
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.cost_function
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.is_number(n double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT n IS NOT NULL AND n NOT IN ('NaN', 'Infinity', '-Infinity') $$;
COMMENT ON FUNCTION medusa.is_number(double precision) IS 'Neither NULL, NaN nor infinite.';

CREATE FUNCTION medusa.check_points(points double precision[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    many     integer := coalesce(array_length(points, 1), 0);
    slope    double precision;
    steeper  double precision;
    problem  text;
BEGIN
    IF many NOT BETWEEN 2 AND 1000 THEN
        problem := format('a cost function has %s points: write 2 to 1000', many);
    ELSIF array_ndims(points) <> 2 OR array_length(points, 2) <> 2
        OR array_lower(points, 1) <> 1 OR array_lower(points, 2) <> 1
    THEN
        problem := 'a point of a cost function is a load and a cost: write {{0, 0}, {1, 2}}';
    END IF;
    IF problem IS NULL THEN
        FOR n IN 1 .. many LOOP
            IF NOT (medusa.is_number(points[n][1]) AND medusa.is_number(points[n][2])) THEN
                problem := format('point %s of the cost function is (%s, %s): write finite numbers',
                    n, coalesce(points[n][1]::text, 'NULL'), coalesce(points[n][2]::text, 'NULL'));
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF problem IS NULL AND points[1][1] <> 0 THEN
        problem := format('a cost function begins at load %s: let it begin at load 0',
            points[1][1]);
    END IF;
    IF problem IS NULL THEN
        FOR n IN 2 .. many LOOP
            IF points[n][1] <= points[n - 1][1] THEN
                problem := format('load %s follows load %s (point %s): sort them',
                    points[n][1], points[n - 1][1], n);
            ELSIF points[n][2] <= points[n - 1][2] THEN
                problem := format('cost %s follows cost %s (point %s): more load costs more',
                    points[n][2], points[n - 1][2], n);
            END IF;
            EXIT WHEN problem IS NOT NULL;
        END LOOP;
    END IF;
    IF problem IS NULL THEN
        FOR n IN 2 .. many LOOP
            steeper := (points[n][2] - points[n - 1][2]) / (points[n][1] - points[n - 1][1]);
            IF steeper < slope * (1 - 1e-9) THEN
                problem := format('behind point %s the cost rises by %s a unit of load, before it '
                    'by %s: a cost function is convex, let no later slope be smaller',
                    n - 1, steeper, slope);
                EXIT;
            END IF;
            slope := steeper;
        END LOOP;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'MD001';
    END IF;
EXCEPTION WHEN numeric_value_out_of_range THEN
    RAISE EXCEPTION 'a cost function rises too steeply or too little: write slopes that a number '
        'can hold' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.check_points(double precision[]) IS
    'Raises, naming the first point that breaks it, unless they make an increasing, convex function.';

CREATE FUNCTION medusa.guard_cost() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text;
BEGIN
    NEW.set_at := clock_timestamp();
    NEW.set_by := session_user;
    IF NEW.kind = 'queue' THEN
        IF NEW.points IS NOT NULL THEN
            problem := 'a queue has no points: write kind piecewise, or leave them out';
        ELSIF NOT medusa.is_number(NEW.capacity) OR NEW.capacity <= 0 THEN
            problem := format('a cost function''s capacity is %s: write a number above 0',
                coalesce(NEW.capacity::text, 'NULL'));
        ELSIF NOT medusa.is_number(NEW.scale) OR NEW.scale <= 0 THEN
            problem := format('a cost function''s scale is %s: write a number above 0',
                coalesce(NEW.scale::text, 'NULL'));
        END IF;
    ELSIF NEW.kind = 'piecewise' THEN
        IF NEW.capacity IS NOT NULL OR NEW.scale IS NOT NULL THEN
            problem := 'a piecewise cost function has points alone: write kind queue, or leave '
                'capacity and scale out';
        ELSE
            PERFORM medusa.check_points(NEW.points);
        END IF;
    ELSE
        problem := 'a cost function is of kind queue or piecewise: write one of them';
    END IF;
    IF problem IS NULL AND (NOT medusa.is_number(NEW.threshold) OR NEW.threshold <= 0) THEN
        problem := format('the threshold is %s: write a number above 0',
            coalesce(NEW.threshold::text, 'NULL'));
    ELSIF problem IS NULL AND NEW.threshold > NEW.capacity THEN
        problem := format('the threshold %s lies beyond the capacity %s: write one that is no '
            'greater', NEW.threshold, NEW.capacity);
    ELSIF problem IS NULL AND (NEW.currency IS NULL OR NEW.currency !~ '^[A-Z]{3}$') THEN
        problem := format('the currency %s is none: write three capitals, such as EUR',
            quote_nullable(left(NEW.currency, 40)));
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_cost() IS
    'Raises unless what is declared is increasing and convex, with a threshold and a currency.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.cost_function
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_cost();

CREATE VIEW medusa_api.cost WITH (security_invoker = true) AS
SELECT kind, capacity, scale, points, threshold, currency, number, set_at, set_by
FROM medusa.cost_function ORDER BY number DESC LIMIT 1;
COMMENT ON VIEW medusa_api.cost IS
    'What load costs this participant: INSERT or UPDATE it as the owner; nobody else sees it.';

CREATE FUNCTION medusa.set_cost() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a cost function is not taken away: declare another one'
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.cost_function (kind, capacity, scale, points, threshold, currency)
    VALUES (NEW.kind,
        NEW.capacity,
        CASE WHEN NEW.kind = 'queue' THEN coalesce(NEW.scale, 1) END,
        NEW.points, NEW.threshold, NEW.currency)
    RETURNING number, set_at, set_by INTO NEW.number, NEW.set_at, NEW.set_by;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.set_cost() IS
    'What is written to the view is one more row of the history.';
CREATE TRIGGER set_cost INSTEAD OF INSERT OR UPDATE OR DELETE ON medusa_api.cost
    FOR EACH ROW EXECUTE FUNCTION medusa.set_cost();

CREATE VIEW medusa_api.load_samples WITH (security_invoker = true) AS
SELECT s.sample_id, s.driver, s.lane, s.ended_at, s.length_ms, p.kind, p.fragment, p.partition,
    p.cause, p.cpu_us, p.cpu_us / (s.length_ms * 1000.0) AS load
FROM medusa.load_sample AS s JOIN medusa.load_part AS p ON p.sample_id = s.sample_id
UNION ALL
SELECT s.sample_id, s.driver, s.lane, s.ended_at, s.length_ms, NULL, NULL, NULL, NULL, s.total_us,
    s.total_us / (s.length_ms * 1000.0)
FROM medusa.load_sample AS s;
COMMENT ON VIEW medusa_api.load_samples IS
    'What drivers spent, period by period: a row for each fragment and kind, and without kind the '
    'total. Load is in CPU seconds per second.';

CREATE FUNCTION medusa.grant_loads_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'airflow', 'analyst', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('REVOKE ALL ON medusa.load_sample, medusa.load_part, medusa.load_retention, '
            'medusa.cost_function, medusa_api.cost, medusa_api.load_samples FROM %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT SELECT ON medusa.load_sample, medusa.load_part, '
                'medusa.load_retention, medusa.cost_function, medusa_api.cost, '
                'medusa_api.load_samples TO %I', role);
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.record_load, medusa.trim_loads TO %I',
                role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_loads_to_roles() IS
    'Jobs measure load and decide by its cost; no other role sees either.';
SELECT medusa.grant_loads_to_roles();

-- Rounds: offers of load, answers to them, and moves that were agreed ------------------------------
--
-- What was offered and answered is written once and stays; what is open now lies in tables of its
-- own, whose keys keep the laws: one open offer per partner, a fragment in one open offer. Messages
-- are the canonical bytes of medusa_core/market/messages.py: columns are read from them here.
-- Whatever is written comes one after the other (medusa.begin_market).

CREATE TABLE medusa.market (
    is_only       boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    round_ms      bigint NOT NULL DEFAULT 60000 CHECK (round_ms BETWEEN 1000 AND 86400000),
    move_ms       bigint NOT NULL DEFAULT 300000 CHECK (move_ms BETWEEN 100 AND 604800000),
    residence_ms  bigint NOT NULL DEFAULT 300000 CHECK (residence_ms BETWEEN 0 AND 604800000),
    dead_band     double precision NOT NULL DEFAULT 0.004
        CHECK (dead_band >= 0 AND dead_band < 1),
    partners_max  integer NOT NULL DEFAULT 2 CHECK (partners_max BETWEEN 1 AND 2),
    changes       bigint NOT NULL DEFAULT 0,
    decided_round bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE medusa.market IS
    'How this participant trades, which its owner sets, and how far it has come: one row.';
COMMENT ON COLUMN medusa.market.round_ms IS
    'How long a round is; an own offer that is not answered lapses after as long.';
COMMENT ON COLUMN medusa.market.move_ms IS 'An agreed move that does not begin lapses after so long.';
COMMENT ON COLUMN medusa.market.residence_ms IS 'What was taken is not offered again before.';
COMMENT ON COLUMN medusa.market.dead_band IS
    'The share of a price by which a move must pay, on this side.';
COMMENT ON COLUMN medusa.market.partners_max IS 'How many partners are asked at a time.';
COMMENT ON COLUMN medusa.market.changes IS
    'Counts what is written about offers: what was decided from less is decided again.';
COMMENT ON COLUMN medusa.market.decided_round IS 'The last round in which offers were decided.';
INSERT INTO medusa.market DEFAULT VALUES;

CREATE TABLE medusa.offer (
    offer_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_own       boolean NOT NULL,
    partner      text COLLATE "C" NOT NULL,
    contract     text COLLATE "C" NOT NULL,
    revision     text COLLATE "C" NOT NULL,
    nonce        text COLLATE "C" NOT NULL CHECK (nonce ~ '^[0-9a-f]{32}$'),
    said_round   bigint NOT NULL,
    level        integer NOT NULL CHECK (level >= 0),
    price        numeric,
    items        integer NOT NULL CHECK (items > 0),
    load         double precision NOT NULL CHECK (load > 0),
    for_overload boolean NOT NULL,
    relays       boolean NOT NULL,
    body         bytea NOT NULL CHECK (octet_length(body) <= 98304),
    because      text,
    round        bigint NOT NULL REFERENCES medusa.round,
    made_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (is_own, partner, contract, nonce),
    UNIQUE (offer_id, is_own, partner),
    CONSTRAINT own_offers_have_a_price CHECK (NOT is_own OR price IS NOT NULL),
    CONSTRAINT own_offers_alone_relay CHECK (is_own OR NOT relays)
);
COMMENT ON TABLE medusa.offer IS
    'Offers of load that this home made (is_own, then the partner is the provider) or was made; '
    'insert-only.';
COMMENT ON COLUMN medusa.offer.said_round IS 'The round of the payer, by its own count.';
COMMENT ON COLUMN medusa.offer.round IS 'The round of this home in which it was made or came.';
COMMENT ON COLUMN medusa.offer.price IS
    'Of its level, in the active revision; NULL: it quotes another, or none of its levels.';
COMMENT ON COLUMN medusa.offer.relays IS 'On behalf of an offer that is kept open here.';
COMMENT ON COLUMN medusa.offer.because IS 'Why, in numbers that no partner sees.';
CREATE INDEX offer_of_partner ON medusa.offer (is_own, partner, contract, said_round);
COMMENT ON INDEX medusa.offer_of_partner IS 'The last offer of a partner under a contract.';
CREATE INDEX offer_of_round ON medusa.offer (round, partner);
COMMENT ON INDEX medusa.offer_of_round IS 'What was offered in a round.';

CREATE TABLE medusa.open_offer (
    offer_id   bigint PRIMARY KEY,
    is_own     boolean NOT NULL,
    partner    text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    is_stale   boolean NOT NULL DEFAULT false,
    CONSTRAINT one_open_offer_per_partner UNIQUE (is_own, partner),
    FOREIGN KEY (offer_id, is_own, partner) REFERENCES medusa.offer (offer_id, is_own, partner)
);
COMMENT ON TABLE medusa.open_offer IS 'Offers that wait for an answer; one per partner either way.';
COMMENT ON COLUMN medusa.open_offer.is_stale IS
    'It lay here for longer than a round before it was looked at: it is declined.';

CREATE TABLE medusa.open_item (
    fragment  text COLLATE "C" NOT NULL,
    partition bigint NOT NULL,
    offer_id  bigint NOT NULL REFERENCES medusa.open_offer ON DELETE CASCADE,
    CONSTRAINT a_fragment_is_in_one_open_offer PRIMARY KEY (fragment, partition)
);
COMMENT ON TABLE medusa.open_item IS 'The fragments in open offers of this home.';
CREATE INDEX open_item_of_offer ON medusa.open_item (offer_id);
COMMENT ON INDEX medusa.open_item_of_offer IS 'What an offer is about.';

CREATE TABLE medusa.offer_lapse (
    offer_id  bigint PRIMARY KEY REFERENCES medusa.offer,
    because   text NOT NULL,
    lapsed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.offer_lapse IS 'Offers that ended without an answer, and why; insert-only.';

CREATE TABLE medusa.answer (
    answer_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    offer_id   bigint NOT NULL REFERENCES medusa.offer,
    is_own     boolean NOT NULL,
    is_more    boolean NOT NULL,
    said_round bigint NOT NULL,
    reason     text COLLATE "C" NOT NULL
        CHECK (reason IN ('taken', 'full', 'load_max', 'revision', 'terms', 'stale', 'unweighed')),
    accepted   integer NOT NULL CHECK (accepted >= 0),
    load       double precision NOT NULL CHECK (load >= 0),
    rooms      jsonb NOT NULL,
    body       bytea NOT NULL CHECK (octet_length(body) <= 98304),
    because    text,
    round      bigint NOT NULL REFERENCES medusa.round,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT more_accepts_nothing CHECK (NOT is_more OR accepted = 0)
);
COMMENT ON TABLE medusa.answer IS
    'Answers that this home gave (is_own) or got; is_more: word of room, once an offer has been '
    'answered or has lapsed; insert-only.';
COMMENT ON COLUMN medusa.answer.rooms IS
    'By level of the contract''s prices, how much more would be taken in all.';
COMMENT ON COLUMN medusa.answer.because IS 'Why, in numbers that no partner sees.';
CREATE UNIQUE INDEX answer_once ON medusa.answer (offer_id) WHERE NOT is_more;
COMMENT ON INDEX medusa.answer_once IS 'An offer is answered once.';
CREATE INDEX answer_of_offer ON medusa.answer (offer_id, answer_id);
COMMENT ON INDEX medusa.answer_of_offer IS 'What was said to an offer, in order.';
CREATE INDEX answer_of_round ON medusa.answer (round);
COMMENT ON INDEX medusa.answer_of_round IS 'What was answered in a round.';

CREATE TABLE medusa.agreed_move (
    move_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_given       boolean NOT NULL,
    partner        text COLLATE "C" NOT NULL,
    contract       text COLLATE "C" NOT NULL,
    revision       text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    fragment       text COLLATE "C" NOT NULL,
    partition      bigint NOT NULL,
    load           double precision NOT NULL CHECK (load > 0),
    level          integer NOT NULL CHECK (level >= 0),
    price          numeric NOT NULL,
    answer_id      bigint NOT NULL REFERENCES medusa.answer,
    makes_room_for bigint REFERENCES medusa.agreed_move,
    state          text COLLATE "C" NOT NULL CHECK (state IN ('granted', 'accepted', 'lapsed')),
    round          bigint NOT NULL REFERENCES medusa.round,
    agreed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT move_ends_once CHECK ((state = 'lapsed') = (ended_at IS NOT NULL)),
    CONSTRAINT given_moves_alone_make_room CHECK (is_given OR makes_room_for IS NULL)
);
COMMENT ON TABLE medusa.agreed_move IS
    'Fragments that this home gives to a partner (is_given) or takes from one: accepted, until it '
    'has moved or its time is over (lapsed). Granted: what a partner would take so that this home '
    'can take something itself; it lapses with the round unless that came about.';
COMMENT ON COLUMN medusa.agreed_move.price IS 'Currency per hour and unit of load.';
COMMENT ON COLUMN medusa.agreed_move.makes_room_for IS 'The move before which this one is made.';
COMMENT ON COLUMN medusa.agreed_move.round IS 'The round of this home in which it was agreed.';
CREATE UNIQUE INDEX agreed_move_given ON medusa.agreed_move (fragment, partition)
    WHERE is_given AND state <> 'lapsed';
COMMENT ON INDEX medusa.agreed_move_given IS 'A fragment is given to one partner.';
CREATE UNIQUE INDEX agreed_move_taken ON medusa.agreed_move (partner, fragment, partition)
    WHERE NOT is_given AND state <> 'lapsed';
COMMENT ON INDEX medusa.agreed_move_taken IS 'A fragment is taken from a partner once.';
CREATE INDEX agreed_move_of_answer ON medusa.agreed_move (answer_id);
COMMENT ON INDEX medusa.agreed_move_of_answer IS 'What an answer has agreed.';

CREATE TABLE medusa.wanted_load (
    contract     text COLLATE "C" PRIMARY KEY,
    revision     text COLLATE "C" NOT NULL,
    nonce        text COLLATE "C" NOT NULL,
    load         double precision NOT NULL,
    smallest     double precision NOT NULL,
    for_overload boolean NOT NULL,
    told_level   integer
);
COMMENT ON TABLE medusa.wanted_load IS
    'What a payer has asked for last and did not get, so that it can be told of room.';
COMMENT ON COLUMN medusa.wanted_load.told_level IS
    'The lowest level at which it was told of room; NULL: it was told that there is none.';

CREATE TABLE medusa.last_word (
    contract  text COLLATE "C" NOT NULL,
    is_own    boolean NOT NULL,
    answer_id bigint NOT NULL REFERENCES medusa.answer,
    PRIMARY KEY (contract, is_own)
);
COMMENT ON TABLE medusa.last_word IS 'The last answer given and got under each contract.';

CREATE TABLE medusa.silent_partner (
    partner    text COLLATE "C" PRIMARY KEY,
    missed     integer NOT NULL CHECK (missed > 0),
    since      timestamptz NOT NULL,
    asks_round bigint NOT NULL
);
COMMENT ON TABLE medusa.silent_partner IS
    'Partners that have not answered lately: how many offers in a row, since when, and in which '
    'round of this home they are asked again.';

CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.agreed_move
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.guard_message() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made_at timestamptz;
BEGIN
    IF TG_TABLE_NAME = 'offer_lapse' THEN
        SELECT o.made_at INTO made_at FROM medusa.offer AS o WHERE o.offer_id = OLD.offer_id;
    ELSE
        made_at := OLD.made_at;
    END IF;
    IF made_at < clock_timestamp() - medusa.messages_kept() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of % is refused: it is insert-only for as long as '
        'medusa.message_retention says', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa.guard_message() IS
    'Raises: an offer or an answer goes when it is older than kept.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.offer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.offer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.offer_lapse
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.offer_lapse
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.answer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.answer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE INDEX offer_made ON medusa.offer (made_at);
COMMENT ON INDEX medusa.offer_made IS 'The oldest offers.';
CREATE INDEX answer_made ON medusa.answer (made_at);
COMMENT ON INDEX medusa.answer_made IS 'The oldest answers.';

CREATE FUNCTION medusa.count_kept() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sender text;
    more   bigint;
BEGIN
    IF TG_OP = 'INSERT' AND NOT NEW.is_own THEN
        more := octet_length(NEW.body);
        SELECT o.partner INTO sender FROM medusa.offer AS o WHERE o.offer_id = NEW.offer_id;
    ELSIF TG_OP = 'DELETE' AND NOT OLD.is_own THEN
        more := -octet_length(OLD.body);
        IF TG_TABLE_NAME = 'offer' THEN
            sender := OLD.partner;
        ELSE
            SELECT o.partner INTO sender FROM medusa.offer AS o WHERE o.offer_id = OLD.offer_id;
        END IF;
    END IF;
    INSERT INTO medusa.partner_share AS s (partner, kind, began_at, messages, bytes)
    SELECT sender, 'kept', clock_timestamp(), sign(more), more WHERE more IS NOT NULL
    ON CONFLICT (partner, kind) DO UPDATE SET messages = s.messages + EXCLUDED.messages,
        bytes = s.bytes + EXCLUDED.bytes;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.count_kept() IS
    'How much is kept of what a partner has offered and answered.';
CREATE TRIGGER count_kept AFTER INSERT OR DELETE ON medusa.offer
    FOR EACH ROW EXECUTE FUNCTION medusa.count_kept();
CREATE TRIGGER count_kept AFTER INSERT OR DELETE ON medusa.answer
    FOR EACH ROW EXECUTE FUNCTION medusa.count_kept();

CREATE FUNCTION medusa.charge_market(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM medusa.partner_share AS s
        WHERE s.partner = envelope.sender AND s.kind = 'kept' AND s.bytes > 268435456)
    THEN
        PERFORM medusa.refuse_too_much(format('offers and answers of %s fill its 256 MiB: it is '
            'heard again when the oldest have gone (medusa.message_retention)', envelope.sender));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.charge_market(medusa.inbox) IS
    'Refuse offers and answers of a partner of whom 256 MiB are kept.';

CREATE FUNCTION medusa.tidy_market(rows_max integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - medusa.messages_kept();
    ended  bigint[];
    gone   bigint;
BEGIN
    DELETE FROM medusa.answer AS a WHERE a.answer_id IN (
        SELECT o.answer_id FROM medusa.answer AS o
        WHERE o.made_at < before
            AND NOT EXISTS (SELECT FROM medusa.last_word AS w WHERE w.answer_id = o.answer_id)
            AND NOT EXISTS (SELECT FROM medusa.agreed_move AS m WHERE m.answer_id = o.answer_id)
        ORDER BY o.made_at LIMIT rows_max FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    ended := ARRAY(
        SELECT o.offer_id FROM medusa.offer AS o
        WHERE o.made_at < before
            AND NOT EXISTS (SELECT FROM medusa.open_offer AS w WHERE w.offer_id = o.offer_id)
            AND NOT EXISTS (SELECT FROM medusa.answer AS a WHERE a.offer_id = o.offer_id)
        ORDER BY o.made_at LIMIT rows_max FOR UPDATE SKIP LOCKED);
    DELETE FROM medusa.offer_lapse AS l WHERE l.offer_id = ANY (ended);
    DELETE FROM medusa.offer AS o WHERE o.offer_id = ANY (ended);
    RETURN gone + cardinality(ended);
END $$;
COMMENT ON FUNCTION medusa.tidy_market(integer) IS
    'Let offers and answers go that are older than kept, and that no agreed move and no last word '
    'rests on; how many went.';

CREATE FUNCTION medusa.round_is_due() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(max(r.opened_at) + coalesce(max(m.round_ms), 60000) * interval '1 ms'
            <= clock_timestamp(), true)
        AND (EXISTS (
                SELECT FROM medusa.contract_agreement AS a
                JOIN medusa.contract_revision AS t ON t.revision = a.revision
                WHERE upper(t.validity) > clock_timestamp()
                    AND coalesce(medusa.ends_at(a.contract) > clock_timestamp(), true))
            OR EXISTS (SELECT FROM medusa.open_offer)
            OR EXISTS (SELECT FROM medusa.agreed_move AS g WHERE g.state <> 'lapsed'))
    FROM (SELECT 1) AS one LEFT JOIN medusa.market AS m ON true
    LEFT JOIN LATERAL (
        SELECT o.opened_at FROM medusa.round AS o ORDER BY o.number DESC LIMIT 1) AS r ON true
$$;
COMMENT ON FUNCTION medusa.round_is_due() IS
    'Whether a round is to be opened now: its time has passed, and a contract that was agreed has '
    'not ended, or something is offered or agreed.';

CREATE FUNCTION medusa.price_of(terms medusa.contract_revision, level integer) RETURNS numeric
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN terms.kind = 'movement'
        AND level BETWEEN 0 AND (terms.price_high - terms.price_low) / terms.price_step
        THEN terms.price_low + level * terms.price_step END
$$;
COMMENT ON FUNCTION medusa.price_of(medusa.contract_revision, integer) IS
    'The price of a level; NULL if the contract has no such level.';

CREATE FUNCTION medusa.terms_in_force(contract text, revision text)
RETURNS medusa.contract_revision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM medusa_api.contract_in_force AS c
    JOIN medusa.contract_revision AS r ON r.revision = c.revision
    WHERE c.contract = terms_in_force.contract AND c.revision = terms_in_force.revision
$$;
COMMENT ON FUNCTION medusa.terms_in_force(text, text) IS
    'What a contract says, if just this revision is active and valid here now; else all NULL.';

CREATE FUNCTION medusa.guard_offer() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision := medusa.terms_in_force(NEW.contract, NEW.revision);
BEGIN
    IF NEW.is_own AND ((medusa.here(), NEW.partner) IS DISTINCT FROM (terms.payer, terms.provider)
        OR NEW.price IS DISTINCT FROM medusa.price_of(terms, NEW.level))
    THEN
        RAISE EXCEPTION 'an offer to % at level % of contract % is refused: it is none of the prices '
            'that the revision in force allows (S4)', NEW.partner, NEW.level, NEW.contract
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_offer() IS
    'S4: what is offered has a price of the contract''s range, in the revision that is in force.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.offer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_offer();

CREATE FUNCTION medusa.may_move(terms medusa.contract_revision, fragment text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (terms).fragments IS NULL OR EXISTS (
        SELECT FROM unnest((terms).fragments) AS f WHERE medusa.is_fragment_of(fragment, f))
$$;
COMMENT ON FUNCTION medusa.may_move(medusa.contract_revision, text) IS
    'Whether a contract lets a fragment move, by either of its names: FRAGMENT stands for '
    'NETWORK.FRAGMENT too, of which network it is the payer knows.';

CREATE FUNCTION medusa.guard_move() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
    here  text := medusa.here();
    same  medusa.agreed_move;
    lies  double precision;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        same := OLD;
        IF (OLD.state, NEW.state) IN (('granted', 'accepted'), ('granted', 'lapsed'),
            ('accepted', 'lapsed'))
        THEN
            same.state := NEW.state;
            same.ended_at := NEW.ended_at;
            IF OLD.state = 'granted' THEN
                same.makes_room_for := NEW.makes_room_for;
            END IF;
        END IF;
        IF same IS DISTINCT FROM NEW THEN
            RAISE EXCEPTION 'move % of % keeps what was agreed', OLD.move_id, OLD.fragment
                USING ERRCODE = 'MDLOG';
        END IF;
        RETURN NEW;
    END IF;
    SELECT r.* INTO terms FROM medusa.contract_activation AS v
    JOIN medusa.contract_revision AS r ON r.revision = v.revision
    WHERE v.revision = NEW.revision AND v.contract = NEW.contract;
    IF (terms.payer, terms.provider) IS DISTINCT FROM (
            (CASE WHEN NEW.is_given THEN here ELSE NEW.partner END),
            (CASE WHEN NEW.is_given THEN NEW.partner ELSE here END))
        OR NEW.price IS DISTINCT FROM medusa.price_of(terms, NEW.level)
        OR NOT medusa.may_move(terms, NEW.fragment)
    THEN
        RAISE EXCEPTION 'a move of % at level % of contract % is refused: the contract does not allow '
            'it (S4)', NEW.fragment, NEW.level, NEW.contract USING ERRCODE = 'MD001';
    END IF;
    SELECT coalesce(sum(m.load), 0) INTO lies FROM medusa.agreed_move AS m
    WHERE m.contract = NEW.contract AND m.is_given = NEW.is_given AND m.state <> 'lapsed';
    IF lies + NEW.load > terms.load_max * (1 + 1e-6) THEN
        RAISE EXCEPTION 'a move of % under contract % is refused: % lie there already of the most load '
            '%', NEW.fragment, NEW.contract, lies, terms.load_max USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_move() IS
    'S4: a move has a price of the contract''s range, is of a fragment that may move, and brings no '
    'more load than the contract lets lie there; what was agreed stays.';
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.agreed_move
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_move();

CREATE FUNCTION medusa.begin_market() RETURNS medusa.market
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    trades medusa.market;
BEGIN
    UPDATE medusa.market AS m SET changes = m.changes + 1 RETURNING * INTO trades;
    IF NOT FOUND THEN
        INSERT INTO medusa.market DEFAULT VALUES ON CONFLICT DO NOTHING;
        UPDATE medusa.market AS m SET changes = m.changes + 1 RETURNING * INTO trades;
    END IF;
    RETURN trades;
END $$;
COMMENT ON FUNCTION medusa.begin_market() IS
    'Whatever is written about offers comes one after the other, from here to the end of the '
    'transaction; how this participant trades.';

CREATE FUNCTION medusa.this_round() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    SELECT max(r.number) INTO found FROM medusa.round AS r;
    IF found IS NULL THEN
        RAISE EXCEPTION 'no round was ever opened here: open one' USING ERRCODE = 'MD002';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa.this_round() IS 'The round that is open.';

CREATE FUNCTION medusa.lapse_offer(waiting medusa.open_offer, because text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended medusa.offer;
BEGIN
    SELECT * INTO ended FROM medusa.offer AS o WHERE o.offer_id = waiting.offer_id;
    INSERT INTO medusa.offer_lapse (offer_id, because) VALUES (waiting.offer_id, lapse_offer.because);
    DELETE FROM medusa.open_offer AS o WHERE o.offer_id = waiting.offer_id;
    DELETE FROM medusa.outbox AS o
    WHERE o.receiver = waiting.partner AND o.about = 'offer/' || ended.nonce
        AND o.acknowledged_at IS NULL AND waiting.is_own;
    PERFORM medusa.write_audit('lapsed', ended.contract, to_jsonb(ended.nonce),
        to_jsonb(lapse_offer.because));
END $$;
COMMENT ON FUNCTION medusa.lapse_offer(medusa.open_offer, text) IS
    'An offer is open no more; what was not sent of it is not sent.';

CREATE FUNCTION medusa.expire_market() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    waiting medusa.open_offer;
    now_is timestamptz;
    ended  integer := 0;
    moves  integer;
    now_in bigint;
BEGIN
    now_is := clock_timestamp();
    SELECT coalesce(max(r.number), 0) INTO now_in FROM medusa.round AS r;
    IF NOT EXISTS (SELECT FROM medusa.open_offer AS o WHERE o.expires_at <= now_is)
        AND NOT EXISTS (
            SELECT FROM medusa.agreed_move AS m
            WHERE m.state = 'granted' AND m.round < now_in
                OR m.state = 'accepted' AND m.expires_at <= now_is)
    THEN
        RETURN 0;
    END IF;
    PERFORM medusa.begin_market();
    FOR waiting IN SELECT * FROM medusa.open_offer AS o WHERE o.expires_at <= now_is
        ORDER BY o.offer_id
    LOOP
        PERFORM medusa.lapse_offer(waiting, 'it was not answered in time');
        ended := ended + 1;
        CONTINUE WHEN NOT waiting.is_own;
        INSERT INTO medusa.silent_partner AS s (partner, missed, since, asks_round)
        VALUES (waiting.partner, 1, now_is, now_in + 2)
        ON CONFLICT (partner) DO UPDATE SET missed = s.missed + 1,
            asks_round = now_in + 1 + least(1 << least(s.missed, 4), 16);
    END LOOP;
    UPDATE medusa.agreed_move AS m SET state = 'lapsed', ended_at = now_is
    WHERE m.state = 'granted' AND m.round < now_in
        OR m.state = 'accepted' AND m.expires_at <= now_is;
    GET DIAGNOSTICS moves = ROW_COUNT;
    RETURN ended + moves;
END $$;
COMMENT ON FUNCTION medusa.expire_market() IS
    'What was offered or agreed, and whose time has passed, binds nobody any more; how much. A '
    'partner that has not answered is left alone for a while, longer each time.';

CREATE FUNCTION medusa.take_offer(envelope_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades   medusa.market := medusa.begin_market();
    envelope medusa.inbox;
    given    jsonb;
    agreed   medusa.contract_revision;
    terms    medusa.contract_revision;
    waiting  medusa.open_offer;
    made     medusa.offer;
    here     text := medusa.here();
BEGIN
    -- 1 Under which contract, in which round?
    envelope := medusa.end_envelope(take_offer.envelope_id);
    given := convert_from(envelope.body, 'UTF8')::jsonb;
    agreed := medusa.agreed_revision(given->>'contract');
    IF (agreed.payer, agreed.provider, agreed.kind)
        IS DISTINCT FROM (envelope.sender, here, 'movement')
    THEN
        RAISE EXCEPTION 'there is no contract % under which % may hand load to %',
            left(given->>'contract', 80), envelope.sender, here USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.offer AS o WHERE NOT o.is_own AND o.partner = envelope.sender
            AND o.contract = agreed.contract AND o.nonce = given->>'nonce')
    THEN
        RAISE EXCEPTION 'this offer was made before: it is a replay' USING ERRCODE = 'MD001';
    END IF;
    -- A partner that has lost its home counts from 1 again, and is heard again after an hour, or
    -- once it has said that its home is another one.
    IF EXISTS (
        SELECT FROM medusa.offer AS o
        WHERE NOT o.is_own AND o.partner = envelope.sender AND o.contract = agreed.contract
            AND o.said_round > (given->>'round')::bigint
            AND o.made_at > clock_timestamp() - interval '1 hour'
            AND o.made_at > coalesce((
                SELECT p.since FROM medusa.partner_home AS p
                WHERE p.partner = envelope.sender), '-infinity'))
    THEN
        RAISE EXCEPTION 'it is stale: an offer of a later round than % has come',
            given->>'round' USING ERRCODE = 'MD001';
    END IF;

    -- 2 One at a time, and not too many.
    SELECT * INTO waiting FROM medusa.open_offer AS o
    WHERE NOT o.is_own AND o.partner = envelope.sender;
    IF FOUND THEN
        SELECT * INTO made FROM medusa.offer AS o WHERE o.offer_id = waiting.offer_id;
        IF (given->>'round')::bigint <= made.said_round THEN
            RAISE EXCEPTION 'another offer of % is open: one at a time', envelope.sender
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.lapse_offer(waiting, 'the payer has made another');
    END IF;
    IF (SELECT count(*) FROM medusa.offer AS o WHERE NOT o.is_own
        AND o.partner = envelope.sender AND o.round = medusa.this_round()) >= 64
    THEN
        RAISE EXCEPTION '% has made 64 offers in this round: it may make no more', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    -- What it offers it has not given: an acceptance that came too late for it binds nobody.
    UPDATE medusa.agreed_move AS m SET state = 'lapsed', ended_at = clock_timestamp()
    FROM jsonb_to_recordset(given->'items') AS i (fragment text, partition bigint)
    WHERE (i.fragment, i.partition) = (m.fragment, m.partition)
        AND NOT m.is_given AND m.partner = envelope.sender AND m.state = 'accepted';

    -- 3 It waits for an answer.
    terms := medusa.terms_in_force(agreed.contract, given->>'revision');
    INSERT INTO medusa.offer (is_own, partner, contract, revision, nonce, said_round, level, price,
        items, load, for_overload, relays, body, round)
    SELECT false, envelope.sender, agreed.contract, given->>'revision', given->>'nonce',
        (given->>'round')::bigint, (given->>'level')::integer,
        medusa.price_of(terms, (given->>'level')::integer), count(*),
        sum(i.load), (given->>'for_overload')::boolean, false, envelope.body, medusa.this_round()
    FROM jsonb_to_recordset(given->'items') AS i (load double precision)
    RETURNING * INTO made;
    INSERT INTO medusa.open_offer (offer_id, is_own, partner, expires_at, is_stale)
    VALUES (made.offer_id, false, made.partner,
        clock_timestamp() + 2 * trades.round_ms * interval '1 ms',
        envelope.received_at + trades.round_ms * interval '1 ms' < clock_timestamp());
    DELETE FROM medusa.silent_partner AS s WHERE s.partner = envelope.sender;
    PERFORM medusa.write_audit('offered', made.contract, NULL, jsonb_build_object('by',
        made.partner, 'nonce', made.nonce, 'level', made.level, 'load', made.load));
    RETURN made.offer_id;
END $$;
COMMENT ON FUNCTION medusa.take_offer(bigint) IS
    'A verified offer waits for an answer; refused if the sender may make none, or has made it '
    'before, or has another one open, or has made 64 in this round of this home. A sender''s share '
    '(charge_share) is of a time as long as a round, which begins anywhere in one. Its number.';

CREATE FUNCTION medusa.take_answer(envelope_id bigint, keeps jsonb, judged_at bigint)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades   medusa.market := medusa.begin_market();
    envelope medusa.inbox;
    given    jsonb;
    made     medusa.offer;
    is_open  boolean;
    said     medusa.answer;
BEGIN
    -- 1 To which offer? What is kept of it was judged from what stood here then.
    IF trades.changes - 1 IS DISTINCT FROM coalesce(judged_at, trades.changes - 1) THEN
        RAISE EXCEPTION 'others have offered or answered meanwhile: read again'
            USING ERRCODE = 'MD002';
    END IF;
    envelope := medusa.end_envelope(take_answer.envelope_id);
    given := convert_from(envelope.body, 'UTF8')::jsonb;
    SELECT * INTO made FROM medusa.offer AS o
    WHERE o.is_own AND o.partner = envelope.sender AND o.contract = given->>'contract'
        AND o.nonce = given->>'nonce';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'it answers an offer that was never made to %', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT (convert_from(made.body, 'UTF8')::jsonb->'items') @> (given->'accepted') THEN
        RAISE EXCEPTION 'it accepts what was not offered' USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa.open_offer AS o WHERE o.offer_id = made.offer_id;
    is_open := FOUND;
    DELETE FROM medusa.silent_partner AS s WHERE s.partner = envelope.sender;

    -- 2 An offer is answered once; then there may be word of room.
    IF NOT is_open AND given->'accepted' <> '[]' THEN
        RAISE EXCEPTION 'the offer % before it came: nothing of it is taken',
            CASE WHEN EXISTS (SELECT FROM medusa.answer AS a WHERE a.offer_id = made.offer_id)
                THEN 'was answered' ELSE 'had lapsed' END USING ERRCODE = 'MD001';
    END IF;
    IF NOT is_open AND (SELECT count(*) FROM medusa.answer AS a
        JOIN medusa.offer AS o ON o.offer_id = a.offer_id
        WHERE o.partner = envelope.sender AND a.is_more AND a.round = medusa.this_round()) >= 64
    THEN
        RAISE EXCEPTION '% has told of room 64 times in this round: it is heard no more',
            envelope.sender USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.answer (offer_id, is_own, is_more, said_round, reason, accepted, load, rooms,
        body, round)
    SELECT made.offer_id, false, NOT is_open, (given->>'round')::bigint, given->>'reason', count(*),
        coalesce(sum(i.load), 0), given->'rooms', envelope.body, medusa.this_round()
    FROM jsonb_to_recordset(given->'accepted') AS i (load double precision)
    RETURNING * INTO said;

    -- 3 What is accepted is given, or granted so that this home may take something itself. What
    -- does not pay any more is not.
    INSERT INTO medusa.agreed_move (is_given, partner, contract, revision, fragment, partition, load,
        level, price, answer_id, state, round, expires_at, ended_at)
    SELECT true, made.partner, made.contract, made.revision, i.fragment, i.partition, i.load,
        made.level, made.price, said.answer_id,
        CASE WHEN k.is_lapsed THEN 'lapsed' WHEN made.relays THEN 'granted' ELSE 'accepted' END,
        said.round, clock_timestamp() + trades.move_ms * interval '1 ms',
        CASE WHEN k.is_lapsed THEN clock_timestamp() END
    FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision),
        LATERAL (SELECT NOT coalesce(
            keeps @> jsonb_build_array(jsonb_build_array(i.fragment, i.partition)), true)
            AS is_lapsed) AS k;
    INSERT INTO medusa.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, false, said.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa.write_audit('answered', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
    RETURN said.answer_id;
END $$;
COMMENT ON FUNCTION medusa.take_answer(bigint, jsonb, bigint) IS
    'A verified answer ends the offer that it names, and what it accepts is agreed; refused if that '
    'was never offered, or not any more. Of what is accepted only `keeps` (fragment and partition; '
    'NULL: all) is given, the rest lapses: it was judged at so many changes of the market. Its '
    'number.';

CREATE FUNCTION medusa.make_offer(made_offer jsonb, trades medusa.market) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message bytea := convert_to(made_offer->>'body', 'UTF8');
    given jsonb := (made_offer->>'body')::jsonb;
    terms medusa.contract_revision;
    made  medusa.offer;
    other text;
BEGIN
    terms := medusa.terms_in_force(given->>'contract', given->>'revision');
    SELECT i.fragment INTO other FROM jsonb_to_recordset(given->'items') AS i (fragment text)
    WHERE NOT medusa.may_move(terms, i.fragment) LIMIT 1;
    IF terms.revision IS NULL OR other IS NOT NULL THEN
        RAISE EXCEPTION 'contract % does not let % move: read it again', given->>'contract',
            coalesce(other, 'anything') USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.offer (is_own, partner, contract, revision, nonce, said_round, level, price,
        items, load, for_overload, relays, body, because, round)
    SELECT true, terms.provider, terms.contract, terms.revision, given->>'nonce',
        (given->>'round')::bigint, (given->>'level')::integer,
        medusa.price_of(terms, (given->>'level')::integer), count(*), sum(i.load),
        (given->>'for_overload')::boolean, (made_offer->>'relays')::boolean, message,
        made_offer->>'because', medusa.this_round()
    FROM jsonb_to_recordset(given->'items') AS i (load double precision)
    RETURNING * INTO made;
    INSERT INTO medusa.open_offer (offer_id, is_own, partner, expires_at)
    VALUES (made.offer_id, true, made.partner,
        clock_timestamp() + trades.round_ms * interval '1 ms');
    INSERT INTO medusa.open_item (fragment, partition, offer_id)
    SELECT i.fragment, i.partition, made.offer_id
    FROM jsonb_to_recordset(given->'items') AS i (fragment text, partition bigint);
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (made.partner, 'offer', 'offer/' || made.nonce, message);
    PERFORM medusa.write_audit('offers', made.contract, NULL, jsonb_build_object('to',
        made.partner, 'nonce', made.nonce, 'level', made.level, 'load', made.load));
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'another offer to % is open, or of a fragment in it: one at a time',
        terms.provider USING ERRCODE = 'MD002';
END $$;
COMMENT ON FUNCTION medusa.make_offer(jsonb, medusa.market) IS
    'Make an offer, which is sent once this transaction has ended well.';

CREATE FUNCTION medusa.give_answer(given_answer jsonb, trades medusa.market) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message bytea := convert_to(given_answer->>'body', 'UTF8');
    given   jsonb := (given_answer->>'body')::jsonb;
    tells   boolean := (given_answer->>'is_more')::boolean;
    made    medusa.offer;
    said    medusa.answer;
    taken   record;
    agreed  medusa.contract_revision;
    unclaimed integer;
BEGIN
    SELECT * INTO made FROM medusa.offer AS o
    WHERE NOT o.is_own AND o.partner = given_answer->>'to' AND o.contract = given->>'contract'
        AND o.nonce = given->>'nonce';
    IF (convert_from(made.body, 'UTF8')::jsonb->'items' @> (given->'accepted')) IS NOT TRUE THEN
        RAISE EXCEPTION 'an answer that is none to the offer: read it again' USING ERRCODE = 'MD002';
    END IF;
    IF NOT tells THEN
        DELETE FROM medusa.open_offer AS o WHERE o.offer_id = made.offer_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the offer % is open no more: read again', made.nonce
                USING ERRCODE = 'MD002';
        END IF;
    END IF;
    IF given->'accepted' <> '[]'
        AND (medusa.terms_in_force(made.contract, made.revision)).revision IS NULL
    THEN
        RAISE EXCEPTION 'contract % is not in force as the offer quotes it', made.contract
            USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.answer (offer_id, is_own, is_more, said_round, reason, accepted, load, rooms,
        body, because, round)
    SELECT made.offer_id, true, tells, (given->>'round')::bigint, given->>'reason',
        count(*), coalesce(sum(i.load), 0), given->'rooms', message,
        given_answer->>'because', medusa.this_round()
    FROM jsonb_to_recordset(given->'accepted') AS i (load double precision)
    RETURNING * INTO said;
    FOR taken IN SELECT * FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision)
    LOOP
        INSERT INTO medusa.agreed_move (is_given, partner, contract, revision, fragment, partition,
            load, level, price, answer_id, state, round, expires_at)
        VALUES (false, made.partner, made.contract, made.revision, taken.fragment, taken.partition,
            taken.load, made.level, made.price, said.answer_id, 'accepted', said.round,
            clock_timestamp() + trades.move_ms * interval '1 ms');
    END LOOP;
    -- What makes room for it leaves, each before the one that it makes room for.
    UPDATE medusa.agreed_move AS m SET state = 'accepted', makes_room_for = t.move_id
    FROM jsonb_to_recordset(given_answer->'leaves')
        AS l (move_id bigint, fragment text, partition bigint)
    JOIN medusa.agreed_move AS t ON t.answer_id = said.answer_id
        AND (t.fragment, t.partition) = (l.fragment, l.partition)
    WHERE m.move_id = l.move_id AND m.is_given AND m.state = 'granted';
    GET DIAGNOSTICS unclaimed = ROW_COUNT;
    IF unclaimed <> jsonb_array_length(given_answer->'leaves') THEN
        RAISE EXCEPTION 'what was to make room has lapsed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (made.partner, 'answer', 'answer/' || said.answer_id, message);
    IF said.reason = 'revision' THEN
        agreed := medusa.agreed_revision(made.contract);
        PERFORM medusa.tell_agreements(made.contract, made.partner, agreed.number);
        IF NOT EXISTS (SELECT FROM medusa.contract_agreement AS a WHERE a.revision = made.revision)
        THEN
            PERFORM medusa.put_out(made.partner, 'want', 'want/' || made.contract,
                jsonb_build_object('contract', made.contract, 'number', agreed.number + 1));
        END IF;
    END IF;
    INSERT INTO medusa.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, true, said.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa.write_audit('answers', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
END $$;
COMMENT ON FUNCTION medusa.give_answer(jsonb, medusa.market) IS
    'Answer an offer, or tell of room once more: what is accepted is agreed. Who quotes another '
    'revision is sent the one that is agreed here.';

CREATE FUNCTION medusa.apply_round(request jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades medusa.market := medusa.begin_market();
    one    jsonb;
    going  integer;
BEGIN
    IF trades.changes - 1 IS DISTINCT FROM (request->>'changes')::bigint
        OR medusa.this_round() IS DISTINCT FROM (request->>'round')::bigint
    THEN
        RAISE EXCEPTION 'others have offered or answered meanwhile: read again'
            USING ERRCODE = 'MD002';
    END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'offers') LOOP
        PERFORM medusa.make_offer(one, trades);
    END LOOP;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'answers') LOOP
        PERFORM medusa.give_answer(one, trades);
    END LOOP;
    UPDATE medusa.agreed_move AS m SET state = 'accepted'
    WHERE m.move_id IN (SELECT l::bigint FROM jsonb_array_elements_text(request->'leaves') AS l)
        AND m.is_given AND m.state = 'granted';
    GET DIAGNOSTICS going = ROW_COUNT;
    IF going <> jsonb_array_length(request->'leaves') THEN
        RAISE EXCEPTION 'what was to be handed on has lapsed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.wanted_load AS w (contract, revision, nonce, load, smallest, for_overload,
        told_level)
    SELECT r.contract, r.revision, r.nonce, r.load, r.smallest, r.for_overload, r.told_level
    FROM jsonb_to_recordset(request->'wanted') AS r (contract text, revision text, nonce text,
        load double precision, smallest double precision, for_overload boolean, told_level integer)
    ON CONFLICT (contract) DO UPDATE SET (revision, nonce, load, smallest, for_overload, told_level)
        = (EXCLUDED.revision, EXCLUDED.nonce, EXCLUDED.load, EXCLUDED.smallest,
            EXCLUDED.for_overload, EXCLUDED.told_level);
    IF (request->>'decides')::boolean THEN
        UPDATE medusa.market AS m SET decided_round = (request->>'round')::bigint;
    END IF;
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.apply_round(jsonb) IS
    'Write down what this participant decided, offers and answers, and what is to be sent of it, all '
    'or nothing; a conflict if anything was offered or answered since it was decided.';

CREATE VIEW medusa_api.offers WITH (security_invoker = true) AS
    SELECT o.offer_id, o.round, o.is_own, o.partner, o.contract, CASE
            WHEN w.offer_id IS NOT NULL THEN 'open' WHEN l.offer_id IS NOT NULL THEN 'lapsed'
            ELSE 'answered' END AS state,
        o.level, o.price, o.items, o.load, a.accepted, a.load AS accepted_load, a.reason,
        o.for_overload, o.relays, o.because, o.made_at, w.expires_at, l.because AS lapsed_because,
        o.nonce, o.revision, o.said_round
    FROM medusa.offer AS o
    LEFT JOIN medusa.open_offer AS w ON w.offer_id = o.offer_id
    LEFT JOIN medusa.offer_lapse AS l ON l.offer_id = o.offer_id
    LEFT JOIN medusa.answer AS a ON a.offer_id = o.offer_id AND NOT a.is_more;
COMMENT ON VIEW medusa_api.offers IS
    'Offers of load that this home made and was made, why, and what became of them.';

CREATE VIEW medusa_api.answers WITH (security_invoker = true) AS
    SELECT a.answer_id, a.round, a.is_own, o.partner, o.contract, a.reason, a.accepted, a.load,
        a.rooms, a.is_more, a.because, a.made_at, o.offer_id, o.nonce, a.said_round
    FROM medusa.answer AS a JOIN medusa.offer AS o ON o.offer_id = a.offer_id;
COMMENT ON VIEW medusa_api.answers IS
    'Answers that this home gave and got, why, and how much more would be taken.';

CREATE VIEW medusa_api.agreed_moves WITH (security_invoker = true) AS
    SELECT move_id, round, is_given, partner, contract, fragment, partition, load, level, price,
        state, makes_room_for, agreed_at, expires_at, ended_at, revision
    FROM medusa.agreed_move;
COMMENT ON VIEW medusa_api.agreed_moves IS
    'Fragments that this home has agreed to give or to take, until they move or lapse.';

CREATE VIEW medusa_api.trading WITH (security_invoker = true) AS
    SELECT round_ms, move_ms, residence_ms, dead_band, partners_max FROM medusa.market;
COMMENT ON VIEW medusa_api.trading IS
    'How this participant trades: its owner changes it by UPDATE, from the next turn on.';

CREATE FUNCTION medusa.grant_rounds_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text := current_database() || '_job';
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE format('GRANT SELECT ON medusa.market, medusa.offer, medusa.open_offer, '
            'medusa.open_item, medusa.offer_lapse, medusa.answer, medusa.agreed_move, '
            'medusa.wanted_load, medusa.last_word, medusa.silent_partner, medusa_api.offers, '
            'medusa_api.answers, '
            'medusa_api.agreed_moves, medusa_api.trading TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.expire_market, medusa.take_offer, '
            'medusa.take_answer, medusa.apply_round TO %I', role);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.grant_rounds_to_roles() IS
    'Jobs offer and answer; no other role but the owner sees anything.';
SELECT medusa.grant_rounds_to_roles();

-- What the owner may do, one by one: what is not named here is not its own to do -----------------

CREATE FUNCTION medusa.grant_all_to_owner() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role   text := current_database() || '_owner';
    rights text;
BEGIN
    -- A home of one login has no other owner than the one of its tables.
    IF role = current_user OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        RETURN;
    END IF;
    FOREACH rights IN ARRAY ARRAY[
        'USAGE ON SCHEMA medusa, medusa_api',
        -- Streams and their computation, within the laws that triggers keep.
        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON medusa.participant, medusa.home, '
            'medusa.stream, medusa.stream_order, medusa.stream_promise, medusa.network, '
            'medusa.plan, medusa.fragment, medusa.assignment, medusa.lease, '
            'medusa.stream_producer, medusa.line_version, medusa.file, medusa.commit, '
            'medusa.step_metrics, medusa.segment, medusa.lineage, medusa.landed_batch, '
            'medusa.source, medusa.landed_bucket, medusa.quarantine, medusa.quarantine_retry, '
            'medusa.hold, medusa.transition, medusa.sink, medusa.cursor, medusa.recall, '
            'medusa.recall_follow, medusa.certificate, medusa.divergence, '
            'medusa.divergence_settled',
        'EXECUTE ON FUNCTION medusa.total, medusa.note_standing, medusa.bring_order, '
            'medusa.chosen_through, medusa.check_trim, medusa.check_files, medusa.to_ms, '
            'medusa.is_held, medusa.deploy, medusa.check_epoch, medusa.check_lease, '
            'medusa.refuse_without_line, medusa.acquire_lease, medusa.renew_lease, '
            'medusa.release_lease, medusa.check_leases, medusa.lock_leases, '
            'medusa.acquire_leases, medusa.renew_leases, medusa.release_leases, '
            'medusa.check_writes, medusa.record_files, medusa.put_aside, medusa.note_retries, '
            'medusa.land, medusa.promise, medusa.lock_lines, medusa.land_many, '
            'medusa.promise_many, medusa.answer, medusa.chain_at, medusa.supersede, '
            'medusa.key_now, medusa.commit_step, medusa.commit_steps, medusa.record_transition, '
            'medusa.place_hold, medusa.release_hold, medusa.declare_retention, '
            'medusa.declare_bound, medusa.declare_verify, medusa.commit_choice, '
            'medusa.remove_trimmed, medusa.trim_line, medusa.compact_line, medusa.declare_sink, '
            'medusa.withdraw_sink, medusa.record_delivery, medusa.record_sink_problem, '
            'medusa.place_cursor, medusa.move_cursor, medusa.drop_cursor, '
            'medusa.recall_closure, medusa.lock_own_lines, medusa.settle, medusa.kept_from, '
            'medusa.recall_line, medusa.check_reason, medusa.recall, medusa.told_recall, '
            'medusa.follow_recalls, medusa.record_certificate, medusa.declare_source, '
            'medusa.line_news, medusa.acknowledge, medusa.import_line',
        'SELECT ON medusa.schema_migration, medusa_api.streams, medusa_api.segments, '
            'medusa_api.steps, medusa_api.lineage, medusa_api.quarantine, '
            'medusa_api.assignments, medusa_api.leases, medusa_api.holds, '
            'medusa_api.transitions, medusa_api.bounds, medusa_api.sinks, medusa_api.cursors, '
            'medusa_api.recalls, medusa_api.certificates, medusa_api.divergences, '
            'medusa_api.disputed, medusa_api.published_boundaries, '
            'medusa_api.published_segments, medusa_api.published_files',
        -- Agreements: they are edited by the view; signing and taking is its program's.
        'SELECT ON medusa.party_key, medusa.contract_order, medusa.contract_revision, '
            'medusa.contract_signature, medusa.contract_proposal, medusa.contract_agreement, '
            'medusa.contract_notice, medusa.round, medusa.contract_activation, '
            'medusa.contract_claim, medusa.inbox, medusa.inbox_repeat, medusa.outbox, '
            'medusa.partner_share, medusa.delivery_pause, medusa.audit, medusa.audit_head, '
            'medusa.audit_entry, medusa_api.contract_in_force, '
            'medusa_api.contract_proposals, medusa_api.contract_history, '
            'medusa_api.contract_notices, medusa_api.party_keys, medusa_api.rounds, '
            'medusa_api.inbox, medusa_api.outbox, medusa_api.audit',
        'SELECT, INSERT, UPDATE, DELETE ON medusa_api.contract',
        'EXECUTE ON FUNCTION medusa.is_name, medusa.at_ms, medusa.subject_range, '
            'medusa.json_list, medusa.contract_document, medusa.terms_of, medusa.check_amount, '
            'medusa.check_length, medusa.check_word, medusa.check_names, medusa.check_terms, '
            'medusa.sorted_terms, medusa.here, medusa.key_of, medusa.hex_key, medusa.learn_key, '
            'medusa.learn_first_key, medusa_api.learn_key, medusa_api.replace_key, '
            'medusa_api.accept_contract, medusa_api.withdraw_contract, medusa.agreed_revision, '
            'medusa.ends_at, medusa.propose, medusa.propose_document, medusa.give_notice, '
            'medusa.open_round, medusa.round_is_due, medusa.audit_hash, medusa.verify_audit, '
            'medusa.room_of, medusa.messages_kept',
        -- Load and the market: how to trade is the owner's to say, offers are its program's.
        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON medusa.load_sample, medusa.load_part, '
            'medusa.load_retention, medusa.cost_function, medusa.message_retention',
        'SELECT, INSERT, UPDATE, DELETE ON medusa_api.cost',
        'SELECT ON medusa_api.load_samples',
        'EXECUTE ON FUNCTION medusa.load_kept, medusa.trim_loads, medusa.record_load, '
            'medusa.is_number, medusa.check_points',
        'SELECT ON medusa.market, medusa.offer, medusa.open_offer, medusa.open_item, '
            'medusa.offer_lapse, medusa.answer, medusa.agreed_move, medusa.wanted_load, '
            'medusa.last_word, medusa.silent_partner, medusa_api.offers, medusa_api.answers, '
            'medusa_api.agreed_moves, medusa_api.trading',
        'UPDATE (round_ms, move_ms, residence_ms, dead_band, partners_max) '
            'ON medusa.market, medusa_api.trading',
        'EXECUTE ON FUNCTION medusa.price_of, medusa.terms_in_force, medusa.this_round'
    ] LOOP
        EXECUTE format('GRANT ' || rights || ' TO %I', role);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_all_to_owner() IS
    'The owner logs in without owning a table. What it may do is listed: streams within the laws, '
    'of agreements the view medusa_api.contract alone, what load costs, and how to trade. A table '
    'that no list names is out of its reach.';

CREATE FUNCTION medusa.grant_partners_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text := current_database() || '_job';
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE format('GRANT SELECT ON medusa.inbox_repeat, medusa.partner_share, '
            'medusa.delivery_pause, medusa.message_retention TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.pause_delivery, medusa.resume_delivery, '
            'medusa.tidy_partners, medusa.end_guests, medusa.round_is_due, medusa.room_of '
            'TO %I', role);
    END IF;
    PERFORM medusa.grant_all_to_owner();
END $$;
COMMENT ON FUNCTION medusa.grant_partners_to_roles() IS
    'Jobs pause deliveries and keep house; the owner has what is listed.';
SELECT medusa.grant_partners_to_roles();

-- Before signing: what an edit would say, written nowhere -----------------------------------------

CREATE FUNCTION medusa.what_if_edited(contract text, edits jsonb) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    stands medusa_api.contract;
    edited medusa_api.contract;
    terms  medusa.contract_revision;
    edit   jsonb;
BEGIN
    SELECT c.* INTO stands FROM medusa_api.contract AS c
    WHERE c.contract = what_if_edited.contract;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT r.* INTO terms FROM medusa.contract_revision AS r
    WHERE r.revision = coalesce(stands.partner_proposes, stands.revision);
    FOR edit IN SELECT * FROM jsonb_array_elements(edits) LOOP
        edited := jsonb_populate_record(stands, edit);
        terms := medusa.check_proposal(medusa.edited_terms(stands, edited));
        stands := edited;
    END LOOP;
    terms := medusa.check_proposal(terms);
    RETURN (medusa.with_number(terms, terms.number, terms.supersedes)).document;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'contract % cannot be edited so: %', contract, SQLERRM USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.what_if_edited(text, jsonb) IS
    'What a contract would say after these edits (objects of columns and texts), each checked as an '
    'UPDATE of medusa_api.contract is; without any, what the partner proposes, else what stands. '
    'Nothing is written. NULL: there is no such contract.';

CREATE FUNCTION medusa.what_if_document(document bytea) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision := medusa.check_proposal(medusa.terms_of(document));
BEGIN
    RETURN (medusa.with_number(terms, terms.number, terms.supersedes)).document;
END $$;
COMMENT ON FUNCTION medusa.what_if_document(bytea) IS
    'What this home would propose with a document, checked as that; nothing is written.';

CREATE FUNCTION medusa.grant_what_if_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['owner', 'job'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN role = current_user
            OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.what_if_edited, medusa.what_if_document '
            'TO %I', role);
        IF kind = 'owner' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.check_proposal, medusa.edited_terms '
                'TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_what_if_to_roles() IS
    'Owner and jobs ask what an edit would say; no other role does.';
SELECT medusa.grant_what_if_to_roles();

CREATE FUNCTION medusa.grant_converging_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['owner', 'job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN role = current_user
            OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.ends_at TO %I', role);
        IF kind = 'owner' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.check_fragments, '
                'medusa.is_fragment, medusa.is_fragment_of, medusa_api.disown_key, '
                'medusa_api.learn_past_key TO %I', role);
        END IF;
        CONTINUE WHEN kind NOT IN ('owner', 'job');
        EXECUTE format('GRANT SELECT ON medusa.key_disowned, medusa.statement, '
            'medusa.statement_due, medusa.contract_void, medusa.partner_home, '
            'medusa_api.contract_voids TO %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.state, medusa.held_agreement, '
                'medusa.take_document, medusa.take_notice, medusa.take_refusal, '
                'medusa.tell_standings, medusa.take_standing, medusa.take_holdings, '
                'medusa.holdings_with, medusa.take_answer TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_converging_to_roles() IS
    'Jobs state, compare and take what partners hold; the owner looks on; who sees contracts sees '
    'when they end.';
SELECT medusa.grant_converging_to_roles();

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
SELECT medusa.grant_supervision_to_roles();


-- Nothing of a home is everybody's; this stays last ------------------------------------------------

REVOKE ALL ON SCHEMA medusa, medusa_api FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_api FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa, medusa_api FROM PUBLIC;
