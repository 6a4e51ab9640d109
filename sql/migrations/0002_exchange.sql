-- The exchange: homes tell each other what happened to their lines; live sources keep their state.

ALTER TYPE medusa.cause ADD VALUE 'import';

ALTER TABLE medusa.landed_batch ADD COLUMN source_state text;
COMMENT ON COLUMN medusa.landed_batch.source_state IS
    'What the source must know to go on behind this batch, in words of its own.';

CREATE TABLE medusa.source (
    stream      text COLLATE "C" PRIMARY KEY REFERENCES medusa.stream,
    document    text NOT NULL,
    declared_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.source IS 'How the sources that land here are fed.';
COMMENT ON COLUMN medusa.source.document IS 'JSON, as in contracts/streams.';

CREATE INDEX segment_begun ON medusa.segment (line_id, begin_version);
CREATE INDEX segment_ended ON medusa.segment (line_id, end_version) WHERE end_version IS NOT NULL;
COMMENT ON INDEX medusa.segment_begun IS 'News of a line: what became live after a version.';
COMMENT ON INDEX medusa.segment_ended IS 'News of a line: what was superseded after a version.';

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
        bucket_us bigint[], bucket_records bigint[], quarantine jsonb, source_state text);
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
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;


-- The exchange: what a partner may see of a line, and what a home keeps of a partner's --------------

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
BEGIN
    SELECT p.line_id, p.last_version, p.origin_us, p.end_us INTO line
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
            line.last_version, line_news.after USING ERRCODE = 'MD001';
    END IF;
    -- A page ends with a whole version, and holds one at least.
    SELECT min(p.begin_version), max(p.begin_version) FILTER (WHERE p.i > line_news.segments_max)
    INTO first, upto
    FROM (
        SELECT s.begin_version, row_number() OVER (ORDER BY s.begin_version) AS i
        FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.begin_version > line_news.after
        ORDER BY s.begin_version LIMIT line_news.segments_max + 1
    ) AS p;
    upto := coalesce(greatest(upto - 1, first), line.last_version);
    RETURN jsonb_build_object(
        'version', upto,
        'origin_us', line.origin_us,
        'end_us', CASE WHEN upto = line.last_version THEN line.end_us END,
        'segments', (
            SELECT jsonb_agg(jsonb_build_object('from_us', s.from_us, 'to_us', s.to_us,
                'stability', s.stability, 'version', s.version, 'begin_version', s.begin_version,
                'end_version', CASE WHEN s.end_version <= upto THEN s.end_version END,
                'plan', s.plan, 'age_ms', s.age_ms, 'missing', s.missing,
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
                    AND t.begin_version <= upto
                    AND (t.end_version IS NULL OR t.end_version > upto)
                UNION ALL
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.end_version > line_news.after
                    AND t.end_version <= upto AND t.begin_version <= line_news.after
            ) AS s),
        'plans', (
            SELECT jsonb_agg(jsonb_build_object('id', p.id, 'network', p.network,
                'document', p.document) ORDER BY p.id)
            FROM medusa.plan AS p
            WHERE p.id IN (SELECT t.plan FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto)));
END $$;
COMMENT ON FUNCTION medusa.line_news(text, text, integer, bigint, integer) IS
    'For partners: what became live or was superseded of a line after a version, page by page.';

CREATE FUNCTION medusa.acknowledge(
    stream text, reader text, through_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF acknowledge.reader !~ '^[a-z][a-z0-9_]{0,62}$' THEN
        RAISE EXCEPTION 'a reader is named like a participant, by small letters, digits and _'
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = acknowledge.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: acknowledge one that is',
            acknowledge.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms)
    VALUES (acknowledge.stream, acknowledge.reader, 'import', acknowledge.through_us,
        acknowledge.limit_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = greatest(h.from_us, excluded.from_us), limit_ms = excluded.limit_ms,
        placed_at = clock_timestamp();
END $$;
COMMENT ON FUNCTION medusa.acknowledge(text, text, bigint, bigint) IS
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
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, stream text,
        from_participant text, from_replica integer, after bigint, version bigint,
        origin_us bigint, end_us bigint, segments jsonb, plans jsonb);

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

    -- 4 End what was superseded, write what is live.
    UPDATE medusa.segment AS s SET end_version = r.end_version
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND r.end_version IS NOT NULL
        AND (s.from_us, s.to_us, s.begin_version) = (r.from_us, r.to_us, r.begin_version);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
    SELECT line.line_id, r.from_us, r.to_us, r.stability, r.version, r.begin_version, r.plan, made,
        r.age_ms, r.missing, r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b,
        medusa.record_files(asked.stream, r.files)
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, stability medusa.stability, version bigint,
         begin_version bigint, end_version bigint, plan text, age_ms bigint, missing text[],
         bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[], files jsonb)
    WHERE r.end_version IS NULL;

    -- 5 Move version and boundary (S1).
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
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.import_line(jsonb) IS
    'Bring a partner''s news of a line into this home: the numbers are those of the interface.';


REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_api FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.grant_to_roles() RETURNS void
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
                    'medusa.acknowledge']
            WHEN 'airflow' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.assignment, '
                    'medusa.lease, medusa.commit, medusa.step_metrics, medusa.hold, '
                    'medusa_api.streams, medusa_api.assignments, medusa_api.leases, '
                    'medusa_api.steps, medusa_api.holds',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.declare_source']
            WHEN 'analyst' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.segment, '
                    'medusa.file, medusa.commit, medusa.step_metrics, medusa.lineage, '
                    'medusa.quarantine, medusa.assignment, medusa.lease, medusa.hold',
                'SELECT ON ALL TABLES IN SCHEMA medusa_api']
            WHEN 'reader' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT (line_id, stream, participant, replica, last_version, origin_us, '
                    'boundary_us, end_us) ON medusa.stream_producer',
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
SELECT medusa.grant_to_roles();
