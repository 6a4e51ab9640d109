-- The availability bound: what is promised of outputs, how old an answer is, what it was computed
-- from, what the rest of its path costs, and when a fragment came into another state.

ALTER TABLE medusa.stream_promise
    ADD COLUMN bound_ms bigint,
    ADD COLUMN during_failure text NOT NULL DEFAULT 'process',
    ADD COLUMN during_stabilization text NOT NULL DEFAULT 'process',
    ADD COLUMN failure_ms_max bigint,
    ADD COLUMN lag_ms bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT bound_is_above_zero CHECK (bound_ms > 0),
    ADD CONSTRAINT policies_are_known CHECK (
        during_failure IN ('process', 'delay', 'suspend')
        AND during_stabilization IN ('process', 'delay', 'suspend')),
    ADD CONSTRAINT suspending_has_a_limit CHECK (
        failure_ms_max > 0 AND failure_ms_max <= bound_ms
        OR failure_ms_max IS NULL
            AND 'suspend' NOT IN (during_failure, during_stabilization)),
    ADD CONSTRAINT lag_is_not_below_zero CHECK (lag_ms >= 0);
COMMENT ON COLUMN medusa.stream_promise.bound_ms IS
    'The availability bound X of the stream, or of the strictest output behind it; NULL: none.';
COMMENT ON COLUMN medusa.stream_promise.during_failure IS
    'What is done with new buckets that lack an input.';
COMMENT ON COLUMN medusa.stream_promise.during_stabilization IS
    'What is done with new buckets while corrections are owed.';
COMMENT ON COLUMN medusa.stream_promise.failure_ms_max IS
    'How long a failure lasts at most, as declared; suspending needs it.';
COMMENT ON COLUMN medusa.stream_promise.lag_ms IS
    'How long after the event time of a bucket it is due; only differences are used.';

ALTER TABLE medusa.lineage ADD COLUMN content text CHECK (content ~ '^[0-9a-f]{64}$');
COMMENT ON COLUMN medusa.lineage.content IS
    'Fingerprint of what was read, where the output may be superseded; NULL: none is kept.';

ALTER TABLE medusa.hold
    ADD COLUMN path_ms bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT path_is_not_below_zero CHECK (path_ms >= 0);
COMMENT ON COLUMN medusa.hold.path_ms IS
    'What the rest of the path costs with the reader, as it says: what an answer here must leave.';

CREATE TABLE medusa.transition (
    transition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fragment      text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition     integer NOT NULL,
    participant   text COLLATE "C" NOT NULL,
    replica       integer NOT NULL,
    state         text NOT NULL CHECK (state IN ('STABLE', 'UP_FAILURE', 'STABILIZATION')),
    because       text NOT NULL,
    changed_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.transition IS
    'When a fragment''s outputs came into another state of the protocol; insert-only. The state '
    'itself is derived from what stands, never read from here.';
COMMENT ON COLUMN medusa.transition.because IS 'The inputs that are missing, or what is owed.';
CREATE INDEX transition_of_fragment ON medusa.transition
    (fragment, partition, participant, replica, transition_id);
COMMENT ON INDEX medusa.transition_of_fragment IS 'The newest state of a fragment.';
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.transition
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.declare_bound(
    stream text, bound_ms bigint, during_failure text, during_stabilization text,
    failure_ms_max bigint, lag_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_bound.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_bound.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p
        (stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms)
    VALUES (declare_bound.stream, declare_bound.bound_ms, declare_bound.during_failure,
        declare_bound.during_stabilization, declare_bound.failure_ms_max, declare_bound.lag_ms)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET bound_ms = excluded.bound_ms, during_failure = excluded.during_failure,
        during_stabilization = excluded.during_stabilization,
        failure_ms_max = excluded.failure_ms_max, lag_ms = excluded.lag_ms,
        declared_at = clock_timestamp()
    WHERE (p.bound_ms, p.during_failure, p.during_stabilization, p.failure_ms_max, p.lag_ms)
        IS DISTINCT FROM (excluded.bound_ms, excluded.during_failure,
            excluded.during_stabilization, excluded.failure_ms_max, excluded.lag_ms);
END $$;
COMMENT ON FUNCTION medusa.declare_bound(text, bigint, text, text, bigint, bigint) IS
    'Say within which bound a stream answers, NULL for none, and how; the same again is nothing.';

CREATE FUNCTION medusa.record_transition(
    fragment text, partition integer, participant text, replica integer, state text, because text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was text;
BEGIN
    PERFORM FROM medusa.fragment AS f WHERE f.id = record_transition.fragment FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fragment % is not deployed here: deploy its network first',
            record_transition.fragment USING ERRCODE = 'MD001';
    END IF;
    SELECT t.state INTO was FROM medusa.transition AS t
    WHERE (t.fragment, t.partition, t.participant, t.replica) = (record_transition.fragment,
        record_transition.partition, record_transition.participant, record_transition.replica)
    ORDER BY t.transition_id DESC LIMIT 1;
    IF coalesce(was, 'STABLE') = record_transition.state THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.transition (fragment, partition, participant, replica, state, because)
    VALUES (record_transition.fragment, record_transition.partition, record_transition.participant,
        record_transition.replica, record_transition.state, record_transition.because);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.record_transition(text, integer, text, integer, text, text) IS
    'Note that a fragment came into another state; the same state again is nothing.';

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

DROP FUNCTION medusa.acknowledge(text, text, bigint, bigint);
CREATE FUNCTION medusa.acknowledge(
    stream text, reader text, through_us bigint, limit_ms bigint, path_ms bigint
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
    IF (acknowledge.path_ms BETWEEN 0 AND 31 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION 'a path costs 0 ms to 31 days, not % ms', acknowledge.path_ms
            USING ERRCODE = 'MD001';
    END IF;
    IF (acknowledge.through_us <= (SELECT max(p.boundary_us) FROM medusa.stream_producer AS p
        WHERE p.stream = acknowledge.stream)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'stream % does not reach to % yet: acknowledge what there is',
            acknowledge.stream, acknowledge.through_us USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms, path_ms)
    VALUES (acknowledge.stream, acknowledge.reader, 'import', acknowledge.through_us,
        acknowledge.limit_ms, acknowledge.path_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = greatest(h.from_us, excluded.from_us), limit_ms = excluded.limit_ms,
        path_ms = excluded.path_ms, placed_at = clock_timestamp();
END $$;
COMMENT ON FUNCTION medusa.acknowledge(text, text, bigint, bigint, bigint) IS
    'For partners: buckets before through_us are safe with the reader; its hold moves up.';

CREATE OR REPLACE VIEW medusa_api.holds WITH (security_invoker = true) AS
SELECT stream, holder, purpose, from_us, limit_ms, placed_at, path_ms FROM medusa.hold;

CREATE VIEW medusa_api.transitions WITH (security_invoker = true) AS
SELECT fragment, partition, participant, replica, state, because, changed_at
FROM medusa.transition;
COMMENT ON VIEW medusa_api.transitions IS
    'When fragments came into UP_FAILURE, STABILIZATION and back into STABLE, and why.';

CREATE VIEW medusa_api.bounds WITH (security_invoker = true) AS
SELECT stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms
FROM medusa.stream_promise;
COMMENT ON VIEW medusa_api.bounds IS 'Within which bound streams answer, and how.';


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
                    'medusa.declare_sink, medusa.withdraw_sink, medusa.record_delivery, medusa.record_sink_problem, '
                    'medusa.acquire_leases, medusa.renew_leases, medusa.release_leases, '
                    'medusa.land_many, medusa.promise_many, medusa.commit_steps']
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
                    'medusa.stream_promise, medusa.sink, medusa.transition',
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
