-- Many at once: leases, landed batches, promises and commits of a thousand streams take one round
-- trip each; a landed file may hold the records of several streams.

CREATE INDEX landed_batch_kept ON medusa.landed_batch (line_id) WHERE file_id IS NOT NULL;
COMMENT ON INDEX medusa.landed_batch_kept IS 'Batches of a line whose file is kept: trimming.';
COMMENT ON TABLE medusa.file IS
    'Files; one may serve several segments of its stream. A landed file may hold records of several '
    'streams: it is known under one of them, and each batch knows its own.';


-- Leases.

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


-- Landing.

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


-- Committing.

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
REVOKE ALL ON FUNCTION medusa.check_leases(jsonb),
    medusa.lock_leases(jsonb),
    medusa.acquire_leases(jsonb, text, bigint),
    medusa.renew_leases(jsonb, bigint),
    medusa.release_leases(jsonb),
    medusa.lock_lines(jsonb),
    medusa.land_many(jsonb),
    medusa.promise_many(jsonb),
    medusa.commit_steps(jsonb)
    FROM PUBLIC;


-- Trimming: a landed file may be of several lines.

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


-- Roles.

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
                    'medusa.acknowledge, medusa.trim_line, medusa.compact_line, '
                    'medusa.declare_retention, medusa.declare_sink, medusa.withdraw_sink, '
                    'medusa.record_delivery, medusa.record_sink_problem, '
                    'medusa.acquire_leases, medusa.renew_leases, medusa.release_leases, '
                    'medusa.land_many, medusa.promise_many, medusa.commit_steps']
            WHEN 'airflow' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.assignment, '
                    'medusa.lease, medusa.commit, medusa.step_metrics, medusa.hold, '
                    'medusa.stream_promise, medusa.sink, medusa_api.sinks, '
                    'medusa_api.streams, medusa_api.assignments, medusa_api.leases, '
                    'medusa_api.steps, medusa_api.holds',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.declare_source, '
                    'medusa.declare_retention, medusa.declare_sink, medusa.withdraw_sink']
            WHEN 'analyst' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.segment, '
                    'medusa.file, medusa.commit, medusa.step_metrics, medusa.lineage, '
                    'medusa.quarantine, medusa.assignment, medusa.lease, medusa.hold, '
                    'medusa.stream_promise, medusa.sink',
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

SELECT medusa.grant_to_roles();
