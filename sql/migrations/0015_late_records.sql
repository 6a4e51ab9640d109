-- A late record can be admitted by a revision; until then all its values are kept.
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
    'or was admitted.';
COMMENT ON COLUMN medusa.late_record.row_bytes IS
    'All its values, in the form of pipelines/storage/late_rows.py.';
CREATE INDEX late_record_buckets ON medusa.late_record (line_id, bucket_us);
COMMENT ON INDEX medusa.late_record_buckets IS 'What waits for a bucket of a line.';

ALTER TABLE medusa.quarantine_retry
    ALTER COLUMN batch_no DROP NOT NULL,
    ADD COLUMN commit_id bigint REFERENCES medusa.commit,
    ADD CONSTRAINT quarantine_retry_is_one_act CHECK (num_nonnulls(batch_no, commit_id) = 1);
COMMENT ON TABLE medusa.quarantine_retry IS
    'Quarantined records that are in their stream after all, each once: repaired and landed with a '
    'batch of their own, or late and admitted by a revision.';
COMMENT ON COLUMN medusa.quarantine_retry.commit_id IS
    'The revision that admitted it; NULL: it landed repaired, with the batch.';
