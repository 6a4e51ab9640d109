-- What was computed: the segments of lines, and what each was computed from.

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
    'Of the content: the version that lineage names. A part that a correction left keeps it.';
COMMENT ON COLUMN medusa.segment.begin_version IS
    'The row was live at version V of its line where begin_version <= V < end_version.';
COMMENT ON COLUMN medusa.segment.end_version IS 'The version that superseded the row; NULL: live.';
COMMENT ON COLUMN medusa.segment.commit_id IS 'The commit of the content; its lineage is there.';
COMMENT ON COLUMN medusa.segment.age_ms IS 'How late it was already when written; never shrinks.';
COMMENT ON COLUMN medusa.segment.missing IS
    'Input streams that were not available (tentative only).';
COMMENT ON COLUMN medusa.segment.bucket_us IS
    'Starts of the non-empty buckets, ascending; the other arrays are parallel to it.';
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
COMMENT ON INDEX medusa.segment_live_tentative IS
    'Rows to which a correction may be owed.';
COMMENT ON INDEX medusa.segment_superseded IS 'Time travel.';
COMMENT ON INDEX medusa.segment_begun IS
    'News of a line: rows that became live after a version.';
COMMENT ON INDEX medusa.segment_ended IS
    'News of a line: rows that were superseded after a version; the progress of corrections.';
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
    'The inputs of each output stream of a commit; never a list of buckets.';
COMMENT ON COLUMN medusa.lineage.read_version IS 'The producer''s own version that was read.';
COMMENT ON COLUMN medusa.lineage.content IS
    'Fingerprint of the rows that were read, where the output may be superseded; NULL: none is '
    'kept.';
