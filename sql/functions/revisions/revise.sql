CREATE OR REPLACE FUNCTION medusa.revise(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    args   record;
    line   record;
    one    record;
    behind text[];
    made   medusa.commit;
    named  int8multirange;
    epoch_now bigint;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (key text, stream text,
        participant text, replica integer, generation integer, because text, who text,
        parts jsonb, behind jsonb, needed jsonb, fragment text, late bigint[]);

    -- 1 The same revision made before? Its answer again.
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = args.key;
    IF FOUND THEN
        RETURN medusa.revision_document(made);
    END IF;
    PERFORM medusa.check_reason(args.because, args.who);

    -- 2 May it be?
    SELECT p.line_id, p.stream, s.kind, s.width_us, p.participant = h.participant AS is_own
    INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    CROSS JOIN medusa.home AS h
    WHERE (p.stream, p.participant, p.replica) = (args.stream, args.participant, args.replica);
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(args.stream, args.participant, args.replica);
    END IF;
    IF NOT line.is_own OR args.replica < 0 THEN
        RAISE EXCEPTION 'the line of % by %/% is not written here: revise it where it is',
            args.stream, args.participant, args.replica USING ERRCODE = 'MD001';
    END IF;
    IF line.kind <> 'source' THEN
        RAISE EXCEPTION '% is computed: revise the sources that it is computed from', args.stream
            USING ERRCODE = 'MD001';
    END IF;
    SELECT array_agg(b) INTO behind FROM medusa.streams_behind(args.stream) AS b;

    -- 3 Hold what is to be read again; holds come before locks of lines, as in a trim.
    SELECT p.stream INTO one FROM medusa.stream_producer AS p WHERE p.stream = ANY (behind)
    GROUP BY p.stream HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% has several producers, which do not follow revisions yet: recall it '
            'instead', one.stream USING ERRCODE = 'MD001';
    END IF;
    SELECT range_agg(int8range(r.from_us, r.to_us)) INTO named
    FROM jsonb_to_recordset(args.parts) AS r (from_us bigint, to_us bigint);
    PERFORM medusa.hold_for_revision(args.stream, lower(named), args.behind, args.needed);

    -- 4 Lock the line; is it as it was when its rows were read? Landing goes on meanwhile: the lease
    -- of this commit is of the other lane, for this transaction.
    SELECT max(a.epoch) INTO epoch_now FROM medusa.assignment AS a
    WHERE a.fragment = args.fragment AND (a.participant, a.replica) =
        (args.participant, args.replica);
    IF epoch_now IS NULL THEN
        RAISE EXCEPTION 'fragment % is not assigned to anybody: deploy it first', args.fragment
            USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.acquire_lease(args.fragment, 0, args.participant, args.replica, 'backlog',
        epoch_now, 'revision', 60000);
    SELECT p.*, s.kind, s.width_us INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.line_id = line.line_id FOR UPDATE OF p;
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = args.key;
    IF FOUND THEN
        RETURN medusa.revision_document(made);
    END IF;
    IF line.generation <> args.generation THEN
        RAISE EXCEPTION '% was revised or recalled meanwhile: read it again', args.stream
            USING ERRCODE = 'MD002';
    END IF;
    IF line.trimmed_us > line.origin_us AND lower(named) < line.trimmed_us THEN
        RAISE EXCEPTION '% is trimmed before %: revise what is kept', args.stream, line.trimmed_us
            USING ERRCODE = 'MD001';
    END IF;
    SELECT named - coalesce(range_agg(int8range(t.from_us, t.to_us)), '{}') AS rest INTO one
    FROM medusa.segment AS t
    WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'stable'
        AND t.to_us > lower(named) AND t.from_us < upper(named);
    IF one.rest <> '{}' THEN
        RAISE EXCEPTION '% is not stable from % on, in a range that is named: revise what is '
            'stable', args.stream, lower(one.rest) USING ERRCODE = 'MD001';
    END IF;
    FOR one IN
        SELECT i.stream, i.at_us::bigint AS from_us, f.id, (
            SELECT min(CASE WHEN p.trimmed_us > p.origin_us THEN p.trimmed_us
                ELSE -9223372036854775808 END)
            FROM medusa.stream_producer AS p WHERE p.stream = i.stream) AS kept_us
        FROM jsonb_each(args.needed) AS f (id, inputs),
            jsonb_each_text(f.inputs) AS i (stream, at_us)
    LOOP
        IF one.from_us < one.kept_us THEN
            RAISE EXCEPTION '% reads % from % on to compute again, which is trimmed before %',
                one.id, one.stream, one.from_us, one.kept_us USING ERRCODE = 'MD001';
        END IF;
    END LOOP;

    IF cardinality(args.late) > 0 THEN
        PERFORM medusa.check_late(line.line_id, named, args.parts, args.late);
    END IF;

    -- 5 Replace the ranges, and no other bucket (S13).
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    VALUES (args.key, args.fragment, 0, args.participant, args.replica, 'backlog', epoch_now,
        args.parts->0->>'plan', 'correction', lower(named), upper(named),
        jsonb_build_object(args.stream, line.last_version + 1), clock_timestamp())
    RETURNING * INTO made;
    PERFORM medusa.revise_line(line.line_id, line.last_version + 1, args.parts, args.because,
        args.who);
    INSERT INTO medusa.quarantine_retry (quarantine_id, commit_id)
    SELECT n, made.commit_id FROM unnest(args.late) AS n;
    DELETE FROM medusa.late_record AS l WHERE l.quarantine_id = ANY (args.late);
    -- Each row is given the ranges over it alone: to read all of them for each is quadratic.
    PERFORM medusa.supersede(t.segment_id, line.last_version + 1, (
        SELECT jsonb_agg(jsonb_build_object('from_us', lower(r), 'to_us', upper(r)))
        FROM unnest(named * int8multirange(int8range(t.from_us, t.to_us))) AS r))
    FROM medusa.segment AS t
    WHERE t.line_id = line.line_id AND t.end_version IS NULL
        AND t.to_us > lower(named) AND t.from_us < upper(named)
        AND named && int8range(t.from_us, t.to_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
    SELECT line.line_id, r.from_us, r.to_us, 'stable', line.last_version + 1,
        line.last_version + 1, r.plan, made.commit_id, r.bucket_us, r.bucket_rows, r.sum_a,
        r.sum_b, medusa.record_files(args.stream, r.files)
    FROM jsonb_to_recordset(args.parts) AS r
        (from_us bigint, to_us bigint, plan text, bucket_us bigint[], bucket_rows bigint[],
         sum_a numeric[], sum_b numeric[], files jsonb);
    UPDATE medusa.stream_producer AS p SET last_version = line.last_version + 1
    WHERE p.line_id = line.line_id;
    INSERT INTO medusa.line_version (line_id, version, chain)
    SELECT line.line_id, line.last_version + 1,
        sha256(medusa.chain_at(line.line_id, line.last_version)
            || sha256(convert_to('revision ' || args.key, 'UTF8')));
    PERFORM medusa.release_lease(args.fragment, 0, args.participant, args.replica, 'backlog',
        epoch_now, 'revision');
    PERFORM pg_notify('medusa_progress', '');
    RETURN medusa.revision_document(made);
END $$;
COMMENT ON FUNCTION medusa.revise(jsonb) IS
    'Replace final buckets of named ranges of a source of this home: the numbers are those of the '
    'interface.';
