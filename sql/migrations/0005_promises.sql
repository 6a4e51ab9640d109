-- What is promised of streams and lines: how long a stream is kept; that no reader holds up landing
-- and committing; that a home which was set back to an old state is noticed.

-- How long a stream is kept.

CREATE TABLE medusa.stream_promise (
    stream       text COLLATE "C" PRIMARY KEY REFERENCES medusa.stream,
    retention_ms bigint,
    declared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT retention_is_above_zero CHECK (retention_ms > 0)
);
COMMENT ON TABLE medusa.stream_promise IS 'What is promised of streams, as in contracts/streams.';
COMMENT ON COLUMN medusa.stream_promise.retention_ms IS
    'How long buckets are kept after their end, if nothing holds them; NULL: for good.';

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

-- Holds and trims of a stream come one after the other by a lock of their own.

CREATE TABLE medusa.stream_order (
    stream text COLLATE "C" PRIMARY KEY REFERENCES medusa.stream
);
COMMENT ON TABLE medusa.stream_order IS
    'A row per stream, locked shared by whoever places a hold and alone by whoever trims, so that '
    'a hold comes before a trim or after it. Landing and committing do not wait for it.';
INSERT INTO medusa.stream_order (stream) SELECT name FROM medusa.stream;
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.stream_order
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.bring_order() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO medusa.stream_order (stream) VALUES (NEW.name);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.bring_order() IS 'Every stream has its row in stream_order.';
CREATE TRIGGER bring_order AFTER INSERT ON medusa.stream
    FOR EACH ROW EXECUTE FUNCTION medusa.bring_order();

CREATE OR REPLACE FUNCTION medusa.check_trim(old medusa.stream_producer, new medusa.stream_producer)
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
    SELECT h.holder, h.purpose, h.from_us INTO other FROM medusa.hold AS h
    WHERE h.stream = old.stream AND h.from_us < new.trimmed_us AND medusa.is_held(h)
    ORDER BY h.from_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is held from % on by % (%): trim no further', old.stream, other.from_us,
            other.holder, other.purpose USING ERRCODE = 'MDS07';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION medusa.guard_hold() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One after the other with trimming: it must see every hold that was placed before.
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = NEW.stream FOR SHARE;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION medusa.place_hold(
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

CREATE OR REPLACE FUNCTION medusa.trim_line(
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

CREATE OR REPLACE FUNCTION medusa.acknowledge(
    stream text, reader text, through_us bigint, limit_ms bigint
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
    IF (acknowledge.through_us <= (SELECT max(p.boundary_us) FROM medusa.stream_producer AS p
        WHERE p.stream = acknowledge.stream)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'stream % does not reach to % yet: acknowledge what there is',
            acknowledge.stream, acknowledge.through_us USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms)
    VALUES (acknowledge.stream, acknowledge.reader, 'import', acknowledge.through_us,
        acknowledge.limit_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = greatest(h.from_us, excluded.from_us), limit_ms = excluded.limit_ms,
        placed_at = clock_timestamp();
END $$;

-- A line's chain: what it had been made of at each version.

CREATE TABLE medusa.line_version (
    line_id integer NOT NULL REFERENCES medusa.stream_producer,
    version bigint NOT NULL CHECK (version >= 0),
    chain   bytea NOT NULL CHECK (octet_length(chain) = 32),
    PRIMARY KEY (line_id, version)
);
COMMENT ON TABLE medusa.line_version IS
    'What a line had been made of at a version. A home that was set back to an old state, and went '
    'on from there, has another chain at the same version; trimming and compacting change none.';
COMMENT ON COLUMN medusa.line_version.chain IS
    'SHA-256 of the chain before and of what the commit wrote; of a partner''s line as it told it.';
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.line_version
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
COMMENT ON COLUMN medusa.home.incarnation IS
    'Carried by cursors; set another after a backup was restored, so that they notice. Partners '
    'notice by the chains of lines, which begin with it.';

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

CREATE OR REPLACE FUNCTION medusa.commit_step(request jsonb) RETURNS jsonb
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
    IF NOT EXISTS (SELECT FROM medusa.assignment AS a
        WHERE a.fragment = asked.fragment AND a.partition = asked.partition
            AND a.plan = asked.plan AND a.epoch <= asked.epoch)
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
            asked.plan, made.commit_id, r.age_ms, r.missing, r.bucket_us, r.bucket_rows, r.sum_a,
            r.sum_b, medusa.record_files(line.stream, r.files)
        FROM jsonb_to_recordset(parts) AS r
            (from_us bigint, to_us bigint, stability medusa.stability, age_ms bigint,
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
            made.key || jsonb_agg(p - '{files,age_ms}'::text[])::text, 'UTF8'))
        INTO chain FROM jsonb_array_elements(parts) AS p;
        INSERT INTO medusa.line_version (line_id, version, chain)
        VALUES (line.line_id, line.version, sha256(chain));
    END LOOP;
    INSERT INTO medusa.lineage (commit_id, output, position, input, participant, replica, from_us,
        to_us, read_version, drop_rate)
    SELECT made.commit_id, r.* FROM ROWS FROM (jsonb_to_recordset(asked.lineage) AS
        (output text, position integer, input text, participant text, replica integer,
         from_us bigint, to_us bigint, read_version bigint, drop_rate double precision)) AS r;
    PERFORM medusa.put_aside(asked.quarantine, made.commit_id, NULL);
    INSERT INTO medusa.step_metrics (commit_id, records_in, records_out, spark_jobs, phases_ms)
    SELECT made.commit_id, m.* FROM jsonb_to_record(asked.metrics) AS m
        (records_in bigint, records_out bigint, spark_jobs integer, phases_ms jsonb);

    PERFORM pg_notify('medusa_progress', '');  -- heard after the commit, several as one
    RETURN medusa.answer(made, false);
END $$;

CREATE OR REPLACE FUNCTION medusa.line_news(
    stream text, participant text, replica integer, after bigint, segments_max integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line record;
    upto bigint;
    first bigint;
    gone bigint;
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
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us
                    AND (t.end_version IS NULL OR t.end_version > upto)
                UNION ALL
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.end_version > line_news.after
                    AND t.end_version <= upto AND t.begin_version <= line_news.after
                    AND t.to_us > line.trimmed_us
            ) AS s),
        'plans', (
            SELECT jsonb_agg(jsonb_build_object('id', p.id, 'network', p.network,
                'document', p.document) ORDER BY p.id)
            FROM medusa.plan AS p
            WHERE p.id IN (SELECT t.plan FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us)));
END $$;

CREATE OR REPLACE FUNCTION medusa.import_line(request jsonb) RETURNS boolean
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
        segments jsonb, plans jsonb);

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
        r.age_ms, r.missing, r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b,
        medusa.record_files(asked.stream, r.files)
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, stability medusa.stability, version bigint,
         begin_version bigint, end_version bigint, plan text, age_ms bigint, missing text[],
         bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[], files jsonb)
    WHERE r.end_version IS NULL;

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
                    'medusa.declare_retention']
            WHEN 'airflow' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.assignment, '
                    'medusa.lease, medusa.commit, medusa.step_metrics, medusa.hold, '
                    'medusa.stream_promise, '
                    'medusa_api.streams, medusa_api.assignments, medusa_api.leases, '
                    'medusa_api.steps, medusa_api.holds',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.declare_source, '
                    'medusa.declare_retention']
            WHEN 'analyst' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.segment, '
                    'medusa.file, medusa.commit, medusa.step_metrics, medusa.lineage, '
                    'medusa.quarantine, medusa.assignment, medusa.lease, medusa.hold, '
                    'medusa.stream_promise',
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
