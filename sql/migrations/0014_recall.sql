-- Recall: what is final may be taken back, by an operator, with a reason, in one piece with all that
-- was computed from it. A line begins another generation there; laws S1 and S2 hold within one.

ALTER TABLE medusa.stream_producer
    ADD COLUMN generation integer NOT NULL DEFAULT 1 CHECK (generation > 0);
COMMENT ON COLUMN medusa.stream_producer.generation IS
    'One more with each recall; see medusa.recall.';

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
    CONSTRAINT recall_follow_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.recall_follow IS
    'Partners'' recalls that the operator of this home agreed to follow; insert-only.';
COMMENT ON COLUMN medusa.recall_follow.generation IS 'Of the partner''s line, behind the recall.';
COMMENT ON COLUMN medusa.recall_follow.from_us IS
    'The recall may take back nothing before it.';

CREATE TABLE medusa.divergence_settled (
    divergence_id bigint PRIMARY KEY REFERENCES medusa.divergence,
    recall_id     bigint NOT NULL REFERENCES medusa.recall,
    settled_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.divergence_settled IS
    'Which recall ended a divergence: one of the two took its rows back; insert-only.';

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.recall
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.recall_follow
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.divergence_settled
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

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

CREATE OR REPLACE FUNCTION medusa.guard_line() RETURNS trigger
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

CREATE OR REPLACE FUNCTION medusa.guard_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name  text;
    width bigint;
    gone  bigint;
    born  integer;
    same  medusa.segment;
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
    SELECT s.name, s.width_us, p.trimmed_us, p.generation INTO name, width, gone, born
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
    -- What a recall leaves of a row may reach over the place, as the row did.
    IF NEW.from_us < gone AND NOT (NEW.version < NEW.begin_version AND EXISTS (
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

CREATE OR REPLACE FUNCTION medusa.move_cursor(stream text, name text, version bigint, limit_ms bigint)
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

CREATE OR REPLACE FUNCTION medusa.commit_choice(request jsonb) RETURNS jsonb
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
        explain boolean);
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
        FOR one IN
            SELECT p.stream, p.trimmed_us, k.value::bigint AS from_us
            FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
                ON p.line_id = k.key::integer
            WHERE k.value::bigint < p.trimmed_us AND p.origin_us < p.trimmed_us
                AND EXISTS (SELECT FROM medusa.segment AS t WHERE t.line_id = p.line_id
                    AND t.end_version IS NULL AND t.to_us > k.value::bigint)
            ORDER BY p.trimmed_us DESC LIMIT 1
        LOOP
            RAISE EXCEPTION '% is trimmed before % and cannot be computed again from % on: recall '
                'from a later bucket, such as %', one.stream, one.trimmed_us, one.from_us,
                one.trimmed_us USING ERRCODE = 'MD001';
        END LOOP;
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
            INSERT INTO medusa.recall_follow (line_id, generation, from_us, because, who)
            VALUES (line.line_id, asked.follows, asked.from_us, asked.because, asked.who);
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        FOR one IN
            SELECT p.line_id, k.value::bigint AS from_us
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

    -- 1 What was read is taken back only if the operator of this home agreed.
    IF EXISTS (SELECT FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL
            AND t.to_us > k_us)
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

    -- 3 All in this home that was computed from it goes with it, but for what is trimmed.
    FOR one IN
        SELECT p.line_id, greatest(k.value::bigint, p.trimmed_us) AS from_us
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

CREATE OR REPLACE FUNCTION medusa.line_news(
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

CREATE OR REPLACE VIEW medusa_api.divergences WITH (security_invoker = true) AS
SELECT divergence_id, stream, bucket_us, plan, participant, replica, version, rows, sum_a, sum_b,
    other_participant, other_replica, other_version, other_rows, other_sum_a, other_sum_b,
    noticed_at
FROM medusa.divergence AS d
WHERE NOT EXISTS (
    SELECT FROM medusa.divergence_settled AS s WHERE s.divergence_id = d.divergence_id);

CREATE VIEW medusa_api.recalls WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, r.generation, r.from_us, r.because, r.who, r.version,
    r.recalled_at
FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id;
COMMENT ON VIEW medusa_api.recalls IS 'What operators took back, from when on, who and why.';

REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_api FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa FROM PUBLIC;

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
REVOKE ALL ON FUNCTION medusa.grant_recalls_to_roles() FROM PUBLIC;
SELECT medusa.grant_recalls_to_roles();
