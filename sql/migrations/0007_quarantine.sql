-- Quarantine keeps length and hash of the whole record, and which records landed repaired; and a
-- line that was never trimmed lets go of no landed file.

ALTER TABLE medusa.quarantine
    ADD COLUMN size_bytes bigint,
    ADD COLUMN sha256 text,
    ADD CONSTRAINT quarantine_hash_is_whole
        CHECK (sha256 ~ '^[0-9a-f]{64}$' AND size_bytes >= 0);
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

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.quarantine_retry
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
REVOKE ALL ON medusa.quarantine_retry FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.put_aside(records jsonb, commit_id bigint, batch_no bigint) RETURNS void
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
REVOKE ALL ON FUNCTION medusa.note_retries(text, bigint[], bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.land(request jsonb) RETURNS boolean
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

CREATE OR REPLACE VIEW medusa_api.quarantine WITH (security_invoker = true) AS
SELECT quarantine_id, stream, origin, position, field, reason, content, commit_id, quarantined_at,
    size_bytes, sha256
FROM medusa.quarantine;

CREATE OR REPLACE FUNCTION medusa.remove_trimmed(line medusa.stream_producer, segments_max integer)
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

SELECT medusa.grant_to_roles();
