CREATE OR REPLACE FUNCTION medusa.import_line(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    args record;
    line  record;
    clock timestamptz;
    made  bigint;
    at_us bigint;
    upto  bigint;
    other text;
    final record;
    gaps  jsonb := '[]';
    revision jsonb;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, stream text,
        from_participant text, from_replica integer, after bigint, version bigint,
        origin_us bigint, end_us bigint, trimmed_us bigint, chain_after text, chain text,
        segments jsonb, plans jsonb, recalls jsonb, revision jsonb,
        behind jsonb, needed jsonb, refusal text);

    -- 1 The same news brought before?
    IF EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = args.key) THEN
        RETURN false;
    END IF;

    -- 2 Lock the lease (S8), which is of this stream's import.
    PERFORM medusa.check_lease(args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.holder);
    IF args.fragment <> 'import/' || args.stream THEN
        RAISE EXCEPTION 'fragment % does not import %: take the lease of import/%',
            args.fragment, args.stream, args.stream USING ERRCODE = 'MD001';
    END IF;

    -- A revision is read again by what was computed from it; holds come before locks of lines.
    IF (args.revision->>'version')::bigint = args.version THEN
        revision := args.revision;
        PERFORM medusa.hold_for_revision(args.stream,
            (revision->'ranges'->0->>'from_us')::bigint, args.behind, args.needed);
    END IF;

    -- 3 Lock the line, which is a partner's and stands where the news begins.
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (args.stream, args.from_participant, args.from_replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(args.stream, args.from_participant,
            args.from_replica);
    END IF;
    clock := medusa.check_lease(args.fragment, args.partition, args.participant,
        args.replica, args.lane, args.epoch, args.holder);  -- the line was waited for
    IF EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = args.key) THEN
        RETURN false;
    END IF;
    IF line.participant = (SELECT h.participant FROM medusa.home AS h) THEN
        RAISE EXCEPTION 'the line of % is written here: only a partner''s is imported',
            args.stream USING ERRCODE = 'MD001';
    END IF;
    IF line.last_version <> args.after OR args.version < args.after THEN
        RAISE EXCEPTION 'the line of % by % is here at %, not at %: ask for its news again',
            args.stream, args.from_participant, line.last_version, args.after
            USING ERRCODE = 'MD002';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.line_version AS v
        WHERE (v.line_id, v.version) = (line.line_id, args.after)
            AND v.chain <> decode(args.chain_after, 'hex'))
    THEN
        RAISE EXCEPTION 'the line of % by %/% is not the one that was read up to %: its home was '
            'restored from a backup and continued: call its operator', args.stream, args.from_participant,
            args.from_replica, args.after USING ERRCODE = 'MD006';
    END IF;
    INSERT INTO medusa.network (name, document)
    SELECT p.network, p.document
    FROM jsonb_to_recordset(args.plans) AS p (id text, network text, document text)
    ON CONFLICT DO NOTHING;
    INSERT INTO medusa.plan (id, network, document)
    SELECT p.id, p.network, p.document
    FROM jsonb_to_recordset(args.plans) AS p (id text, network text, document text)
    ON CONFLICT DO NOTHING;
    SELECT p.id INTO other
    FROM jsonb_to_recordset(args.plans) AS p (id text, network text, document text)
    JOIN medusa.plan AS here ON here.id = p.id WHERE here.document <> p.document LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'plan % exists here with another document: a plan is named by its '
            'fingerprint', other USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    SELECT args.key, args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.plan, 'import',
        coalesce(min(r.from_us), args.origin_us, 0), coalesce(max(r.to_us), args.origin_us, 0),
        jsonb_build_object(args.stream, args.version), clock
    FROM jsonb_to_recordset(args.segments) AS r (from_us bigint, to_us bigint)
    RETURNING commit_id INTO made;

    -- What the partner has recalled is taken back first, if the operator of this home agreed.
    IF EXISTS (SELECT FROM jsonb_to_recordset(args.recalls) AS r (generation integer)
        WHERE r.generation > line.generation)
    THEN
        PERFORM medusa.follow_recalls(line.line_id, args.recalls, args.version, args.segments,
            args.refusal);
        SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
    END IF;
    -- So is what it has revised, if the contract of the stream or the operator says so.
    IF revision IS NOT NULL THEN
        PERFORM medusa.follow_revision(line.line_id, revision, args.segments, args.refusal);
        SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
    END IF;
    -- Nothing is reported of what is recalled later; nobody could ever compute from it here.
    IF line.generation > 1 AND EXISTS (
        SELECT FROM medusa.recall AS r, jsonb_to_recordset(args.segments) AS s
            (to_us bigint, end_version bigint)
        WHERE r.line_id = line.line_id AND r.version > args.version AND s.end_version IS NULL
            AND s.to_us > r.from_us)
    THEN
        RAISE EXCEPTION 'news of % by %/% up to % holds rows that it says are recalled later: call '
            'the partner''s operator', args.stream, args.from_participant, args.from_replica,
            args.version USING ERRCODE = 'MD001';
    END IF;

    -- 4 End what was superseded, write what is live. Before this place all is final here.
    SELECT least(line.boundary_us, min(s.from_us)) INTO at_us FROM (
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1) AS s;
    at_us := coalesce(at_us, args.origin_us);
    UPDATE medusa.segment AS s SET end_version = r.end_version
    FROM jsonb_to_recordset(args.segments) AS r
        (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
    WHERE revision IS NULL
        AND s.line_id = line.line_id AND s.end_version IS NULL AND r.end_version IS NOT NULL
        AND (s.from_us, s.to_us, s.begin_version) = (r.from_us, r.to_us, r.begin_version);
    -- The end of a trimmed tentative row is not reported: its replacement shows it.
    UPDATE medusa.segment AS s SET end_version = (
        SELECT min(r.begin_version)
        FROM jsonb_to_recordset(args.segments) AS r
            (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
        WHERE r.end_version IS NULL AND r.from_us < s.to_us AND r.to_us > s.from_us)
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        AND s.to_us <= args.trimmed_us AND EXISTS (
            SELECT FROM jsonb_to_recordset(args.segments) AS r
                (from_us bigint, to_us bigint, end_version bigint)
            WHERE r.end_version IS NULL AND r.from_us < s.to_us AND r.to_us > s.from_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
    SELECT line.line_id, r.from_us, r.to_us, r.stability, r.version, r.begin_version, r.plan, made,
        greatest(medusa.to_ms(clock) - r.fresh_ms, 0), r.missing, r.bucket_us, r.bucket_rows,
        r.sum_a, r.sum_b, medusa.record_files(args.stream, r.files)
    FROM jsonb_to_recordset(args.segments) AS r
        (from_us bigint, to_us bigint, stability medusa.stability, version bigint,
         begin_version bigint, end_version bigint, plan text, fresh_ms bigint, missing text[],
         bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[], files jsonb)
    WHERE r.end_version IS NULL
        -- After a recall a partner may tell again what is trimmed here.
        AND (line.generation > 1 AND r.to_us <= line.trimmed_us) IS NOT TRUE
        -- What a revision leaves of a row is left of the copy's.
        AND (revision IS NULL OR r.version = args.version
            AND (r.to_us <= line.trimmed_us) IS NOT TRUE);

    -- 5 What the partner has trimmed and is not final here is lost: declare it.
    WHILE at_us < args.trimmed_us LOOP
        SELECT s.from_us, s.to_us INTO final FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            AND s.stability <> 'tentative'
        ORDER BY s.to_us LIMIT 1;
        upto := least(final.from_us, args.trimmed_us);
        IF at_us < upto THEN
            gaps := gaps || jsonb_build_object('from_us', at_us, 'to_us', upto);
        END IF;
        at_us := coalesce(final.to_us, args.trimmed_us);
    END LOOP;
    PERFORM medusa.supersede(s.segment_id, args.version, gaps)
    FROM medusa.segment AS s
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        AND EXISTS (
            SELECT FROM jsonb_to_recordset(gaps) AS g (from_us bigint, to_us bigint)
            WHERE g.from_us < s.to_us AND g.to_us > s.from_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id)
    SELECT line.line_id, g.from_us, g.to_us, 'gap', args.version, args.version, args.plan, made
    FROM jsonb_to_recordset(gaps) AS g (from_us bigint, to_us bigint);

    -- 6 Move version and boundary (S1).
    at_us := coalesce(line.boundary_us, args.origin_us);
    LOOP
        SELECT s.to_us INTO upto FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            AND s.from_us <= at_us
        ORDER BY s.to_us LIMIT 1;
        EXIT WHEN NOT FOUND;
        at_us := upto;
    END LOOP;
    UPDATE medusa.stream_producer AS p
    SET last_version = args.version,
        origin_us = coalesce(p.origin_us, args.origin_us),
        end_us = coalesce(p.end_us, args.end_us),
        boundary_us = CASE WHEN at_us >= coalesce(p.end_us, args.end_us) THEN forever
            ELSE at_us END
    WHERE p.line_id = line.line_id;
    INSERT INTO medusa.line_version (line_id, version, chain)
    SELECT line.line_id, args.version, decode(args.chain, 'hex') WHERE args.chain IS NOT NULL
    ON CONFLICT DO NOTHING;
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.import_line(jsonb) IS
    'Bring a partner''s news of a line into this home: the numbers are those of the interface.';
