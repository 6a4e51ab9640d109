-- Sinks: where streams are delivered, how far each target has come, and the holds that go with it.

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

REVOKE ALL ON FUNCTION medusa.declare_sink(text, text, text, bigint, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION medusa.withdraw_sink(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION
    medusa.record_delivery(text, text, text, bigint, bigint, bigint, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION medusa.record_sink_problem(text, text, text, text) FROM PUBLIC;

CREATE VIEW medusa_api.sinks WITH (security_invoker = true) AS
SELECT stream, name, from_us, through_us, version, rows, lost_us, problem, declared_at, delivered_at
FROM medusa.sink;
COMMENT ON VIEW medusa_api.sinks IS 'How far each sink has delivered.';

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
                    'medusa.record_delivery, medusa.record_sink_problem']
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
