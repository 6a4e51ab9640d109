-- A partner's recall can be followed however much of its rows, or of what was computed from them, is
-- trimmed here. What producers disagree about is kept until they agree. What a partner says it will
-- recall it does not tell.

ALTER TABLE medusa.recall_follow ADD COLUMN stays jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN medusa.recall_follow.stays IS
    'Stream -> before when what is computed of it here stays: its inputs are trimmed there.';

CREATE OR REPLACE FUNCTION medusa.chosen_through(stream text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(min(coalesce((
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1), p.boundary_us, -9223372036854775808)), (
            -- Who is wrong has to take it back, and the rows are what a person looks at.
            SELECT min(d.bucket_us) FROM medusa.divergence AS d
            WHERE d.stream = chosen_through.stream AND NOT EXISTS (
                SELECT FROM medusa.divergence_settled AS s
                WHERE s.divergence_id = d.divergence_id)))
    FROM medusa.stream_producer AS p
    WHERE p.stream = chosen_through.stream AND p.replica = -1
$$;
COMMENT ON FUNCTION medusa.chosen_through(text) IS
    'Up to where what is read of a stream''s producers is final here and not in dispute; NULL: there '
    'is no choice.';

CREATE OR REPLACE FUNCTION medusa.guard_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name  text;
    width bigint;
    gone  bigint;
    born  integer;
    same  medusa.segment;
    own   boolean;
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
    SELECT s.name, s.width_us, p.trimmed_us, p.generation, EXISTS (
        SELECT FROM medusa.home AS h WHERE h.participant = p.participant)
    INTO name, width, gone, born, own
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
    -- What a recall leaves of a row may reach over the place, as the row did; so may what a partner
    -- has instead of it.
    IF NEW.from_us < gone AND NOT (
        (NEW.version < NEW.begin_version OR NOT own AND NEW.to_us > gone) AND EXISTS (
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

CREATE FUNCTION medusa.kept_from(line_id integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.gone_us + ((k.width_us - k.gone_us % k.width_us) % k.width_us)
    FROM (
        SELECT max(o.trimmed_us) FILTER (WHERE o.trimmed_us > o.origin_us) AS gone_us,
            max(s.width_us) AS width_us
        FROM medusa.stream_producer AS p
        CROSS JOIN medusa.home AS h
        JOIN medusa.stream_producer AS o ON o.line_id = p.line_id
            OR p.participant = h.participant AND p.replica >= 0
                AND (o.participant, o.replica) = (p.participant, p.replica)
                AND EXISTS (
                    SELECT FROM medusa.fragment AS f
                    WHERE p.stream = ANY (f.outputs) AND o.stream = ANY (f.outputs)
                        AND f.id NOT LIKE 'import/%')
        JOIN medusa.stream AS s ON s.name = o.stream
        WHERE p.line_id = kept_from.line_id
    ) AS k
$$;
COMMENT ON FUNCTION medusa.kept_from(integer) IS
    'From when on a line and what its fragment writes beside it are kept, on the widest grid; NULL: '
    'nothing of them is trimmed.';

CREATE OR REPLACE FUNCTION medusa.recall(request jsonb) RETURNS jsonb
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
        stays jsonb, explain boolean);
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
        -- What comes behind goes as far as it is kept; a partner's recall asks nobody how far.
        IF line.is_own AND asked.from_us < medusa.kept_from(line.line_id) THEN
            RAISE EXCEPTION '% is trimmed before % and cannot be computed again from % on: recall '
                'from a later bucket, such as %', asked.stream, medusa.kept_from(line.line_id),
                asked.from_us, medusa.kept_from(line.line_id) USING ERRCODE = 'MD001';
        END IF;
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
            INSERT INTO medusa.recall_follow (line_id, generation, from_us, because, who, stays)
            VALUES (line.line_id, asked.follows, asked.from_us, asked.because, asked.who,
                coalesce(asked.stays, '{}'));
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        FOR one IN
            SELECT p.line_id, greatest(k.value::bigint, medusa.kept_from(p.line_id),
                CASE WHEN p.line_id <> line.line_id THEN (asked.stays->>p.stream)::bigint END)
                AS from_us
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

CREATE OR REPLACE FUNCTION medusa.follow_recalls(
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

    -- 1 What was read, and is kept, is taken back only if the operator of this home agreed.
    IF EXISTS (SELECT FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL
            AND t.to_us > greatest(k_us, line.trimmed_us))
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

    -- 3 All in this home that was computed from it goes with it, as far as it is kept and can be
    -- computed again.
    FOR one IN
        SELECT p.line_id, greatest(k.value::bigint, medusa.kept_from(p.line_id),
            (agreed.stays->>p.stream)::bigint) AS from_us
        FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
            ON p.line_id = k.key::integer
        ORDER BY p.stream, p.participant, p.replica
    LOOP
        PERFORM medusa.recall_line(one.line_id, one.from_us, agreed.because, agreed.who);
    END LOOP;
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
    -- Of what is recalled later nothing is told; nobody could ever compute from it here.
    IF line.generation > 1 AND EXISTS (
        SELECT FROM medusa.recall AS r, jsonb_to_recordset(asked.segments) AS s
            (to_us bigint, end_version bigint)
        WHERE r.line_id = line.line_id AND r.version > asked.version AND s.end_version IS NULL
            AND s.to_us > r.from_us)
    THEN
        RAISE EXCEPTION 'news of % by %/% up to % holds rows that it says are recalled later: call '
            'the partner''s operator', asked.stream, asked.from_participant, asked.from_replica,
            asked.version USING ERRCODE = 'MD001';
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
    WHERE r.end_version IS NULL
        -- After a recall a partner may tell again what is trimmed here.
        AND (line.generation > 1 AND r.to_us <= line.trimmed_us) IS NOT TRUE;

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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa FROM PUBLIC;
