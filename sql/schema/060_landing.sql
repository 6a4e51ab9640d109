-- What has landed, and the records that could not be used.

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
    'The state from which the source continues after this batch, in its own form.';
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
    sum_a     numeric(50,0),
    sum_b     numeric(50,0),
    PRIMARY KEY (line_id, bucket_us, batch_no),
    CONSTRAINT landed_bucket_digest_is_whole CHECK (num_nulls(sum_a, sum_b) IN (0, 2)
        AND sum_a >= 0 AND sum_b >= 0)
);
COMMENT ON TABLE medusa.landed_bucket IS
    'Records per bucket and landed batch: the content of a run of buckets, without opening a '
    'file.';
COMMENT ON COLUMN medusa.landed_bucket.sum_a IS
    'First sum of row hashes, where the file has the form of a segment''s; NULL: not computed.';
COMMENT ON COLUMN medusa.landed_bucket.sum_b IS 'Second sum of row hashes.';

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
    outputs        text[] COLLATE "C" NOT NULL DEFAULT '{}',
    CONSTRAINT quarantine_hash_is_whole CHECK (sha256 ~ '^[0-9a-f]{64}$' AND size_bytes >= 0)
);
COMMENT ON TABLE medusa.quarantine IS 'Records that could not be used, where from and why.';
COMMENT ON COLUMN medusa.quarantine.origin IS 'A file or a box.';
COMMENT ON COLUMN medusa.quarantine.position IS 'A line of the file, a row, or a bucket start.';
COMMENT ON COLUMN medusa.quarantine.size_bytes IS
    'Length of the whole record; content has its first 1,024 bytes. NULL: not known.';
COMMENT ON COLUMN medusa.quarantine.sha256 IS 'Hash of the whole record; NULL: not known.';
COMMENT ON COLUMN medusa.quarantine.outputs IS
    'All outputs that lack a record on which a box failed; none: no box failed on it, or it is older '
    'than this column.';

CREATE TABLE medusa.quarantine_retry (
    quarantine_id bigint PRIMARY KEY REFERENCES medusa.quarantine,
    batch_no      bigint REFERENCES medusa.landed_batch,
    retried_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    commit_id     bigint REFERENCES medusa.commit,
    CONSTRAINT quarantine_retry_is_one_act CHECK (num_nonnulls(batch_no, commit_id) = 1)
);
COMMENT ON TABLE medusa.quarantine_retry IS
    'Quarantined records that are in their stream after all, each once: repaired and landed with a '
    'batch of their own, or late and admitted by a revision.';
COMMENT ON COLUMN medusa.quarantine_retry.commit_id IS
    'The revision that admitted it; NULL: it landed repaired, with the batch.';

CREATE TABLE medusa.late_record (
    quarantine_id bigint PRIMARY KEY REFERENCES medusa.quarantine,
    line_id   integer NOT NULL REFERENCES medusa.stream_producer,
    bucket_us bigint NOT NULL,
    stime_us  bigint NOT NULL,
    row_bytes bytea NOT NULL,
    sum_a     numeric NOT NULL,
    sum_b     numeric NOT NULL,
    CONSTRAINT late_record_is_one_record CHECK (octet_length(row_bytes) > 0
        AND sum_a >= 0 AND sum_a <= 18446744073709551616
        AND sum_b >= 0 AND sum_b <= 18446744073709551616)
);
COMMENT ON TABLE medusa.late_record IS
    'Late records that wait for a revision which admits them: a row goes once its record has landed '
    'or was admitted, or its bucket is trimmed.';
COMMENT ON COLUMN medusa.late_record.row_bytes IS
    'All its values, in the form of pipelines/storage/late_rows.py.';
CREATE INDEX late_record_buckets ON medusa.late_record (line_id, bucket_us);
COMMENT ON INDEX medusa.late_record_buckets IS 'What waits for a bucket of a line.';
