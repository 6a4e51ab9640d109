-- Cursors: how far consumers have applied the changes of streams, and what they hold. A version knows
-- when this home came to it and where the stable prefix ended then: time travel, and what a trim took.

ALTER TABLE medusa.line_version ADD COLUMN stable_us bigint, ADD COLUMN made_at timestamptz;
ALTER TABLE medusa.line_version DISABLE TRIGGER insert_only;
UPDATE medusa.line_version AS v SET made_at = c.committed_at
FROM medusa.segment AS s JOIN medusa.commit AS c ON c.commit_id = s.commit_id
WHERE s.line_id = v.line_id AND s.begin_version = v.version AND s.version = v.version;
ALTER TABLE medusa.line_version ENABLE TRIGGER insert_only;
COMMENT ON COLUMN medusa.line_version.stable_us IS
    'Where the stable prefix ended at that version; NULL: not known.';
COMMENT ON COLUMN medusa.line_version.made_at IS
    'When this home came to it, by its own clock; NULL: not known.';
CREATE INDEX line_version_made ON medusa.line_version (line_id, made_at);
COMMENT ON INDEX medusa.line_version_made IS 'Which version a line had at a time.';

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

DROP INDEX medusa.segment_ended;
CREATE INDEX segment_ended ON medusa.segment (line_id, end_version, to_us)
    WHERE end_version IS NOT NULL;
COMMENT ON INDEX medusa.segment_ended IS
    'News of a line: what was superseded after a version; how far corrections have come.';

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
        greatest(at.from_us, seen.stable_us), move_cursor.limit_ms);
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

CREATE VIEW medusa_api.cursors WITH (security_invoker = true) AS
SELECT c.stream, c.name, p.participant, p.replica, c.version, p.last_version, c.from_us,
    c.placed_at, c.moved_at
FROM medusa.cursor AS c JOIN medusa.stream_producer AS p ON p.line_id = c.line_id;
COMMENT ON VIEW medusa_api.cursors IS 'How far consumers have applied the changes of streams.';

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
SELECT medusa.grant_to_roles();
