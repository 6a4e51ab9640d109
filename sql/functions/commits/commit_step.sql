-- Its plans are kept per connection, maybe from when the tables were small: no scan even then.
CREATE OR REPLACE FUNCTION medusa.commit_step(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    args    record;
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
    since    bigint;
    revised_by bigint;
    is_revised boolean;
    kept_us    bigint;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, cause medusa.cause, ends boolean,
        streams jsonb, lineage jsonb, quarantine jsonb, metrics jsonb);

    -- 1 The same key committed before? Its answer again.
    sent := args.key;
    args.key := medusa.key_now(sent, args.streams, args.participant, args.replica, args.cause);
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = args.key;
    IF FOUND THEN
        RETURN medusa.answer(made, true);
    END IF;

    -- 2 Lock the lease (S8). Who had it may have committed this very key before letting go.
    PERFORM FROM medusa.lease AS l
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
        (args.fragment, args.partition, args.participant, args.replica, args.lane)
    FOR UPDATE;
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = args.key;
    IF FOUND THEN
        RETURN medusa.answer(made, true);
    END IF;
    PERFORM medusa.check_lease(args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.holder);
    -- What is imported was computed under its producer's plan, whichever that is.
    IF NOT EXISTS (SELECT FROM medusa.assignment AS a
        WHERE a.fragment = args.fragment AND a.partition = args.partition
            AND a.plan = args.plan AND a.epoch <= args.epoch)
        AND NOT (args.replica = -1 AND args.cause = 'import'
            AND EXISTS (SELECT FROM medusa.plan AS p WHERE p.id = args.plan))
    THEN
        RAISE EXCEPTION 'fragment % was never assigned under plan %: deploy the plan first',
            args.fragment, args.plan USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_writes(args.fragment, stream)
    FROM jsonb_object_keys(args.streams) AS stream;
    -- The columns would round a sum in silence.
    IF EXISTS (
        SELECT FROM jsonb_each(args.streams) AS s (stream, parts),
            jsonb_to_recordset(s.parts) AS r (sum_a numeric[], sum_b numeric[]),
            unnest(r.sum_a || r.sum_b) AS n
        WHERE n <> trunc(n))
    THEN
        RAISE EXCEPTION 'fragment % gives a sum of hashes that is no integer: give it exactly',
            args.fragment USING ERRCODE = 'MD001';
    END IF;

    -- 3 Lock the lines in one order and number them.
    SELECT jsonb_object_agg(l.stream, l.last_version + 1), min(l.from_us), max(l.to_us)
    INTO made.versions, made.from_us, made.to_us
    FROM (
        SELECT p.stream, p.last_version,
            (SELECT min((s->>'from_us')::bigint)
                FROM jsonb_array_elements(args.streams->p.stream) s)
                AS from_us,
            (SELECT max((s->>'to_us')::bigint) FROM jsonb_array_elements(args.streams->p.stream) s)
                AS to_us
        FROM medusa.stream_producer AS p
        WHERE p.stream IN (SELECT jsonb_object_keys(args.streams))
            AND (p.participant, p.replica) = (args.participant, args.replica)
        ORDER BY p.stream
        FOR UPDATE OF p
    ) AS l;
    PERFORM medusa.refuse_without_line(stream, args.participant, args.replica)
    FROM jsonb_object_keys(args.streams) AS stream
    WHERE (made.versions ? stream) IS NOT TRUE;
    -- The lines may have been waited for: the lease may have ended, or a newer epoch come (S8).
    clock := medusa.check_lease(args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.holder);
    args.key := medusa.key_now(sent, args.streams, args.participant, args.replica, args.cause);
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    VALUES (args.key, args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.plan, args.cause, made.from_us, made.to_us, made.versions,
        clock)
    RETURNING * INTO made;

    FOR line IN
        SELECT p.*, s.width_us, (made.versions->>p.stream)::bigint AS version
        FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
        WHERE p.stream IN (SELECT jsonb_object_keys(args.streams))
            AND (p.participant, p.replica) = (args.participant, args.replica)
        ORDER BY p.stream
    LOOP
        parts := args.streams->line.stream;

        -- 4 Supersede overlapped tentative rows; what is final stays (S2, S3).
        past_us := NULL;
        begin_us := NULL;
        revised_by := NULL;
        kept_us := NULL;
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
                RAISE EXCEPTION 'segment [%, %) of % is outside its life [%, %): '
                    'compute what is inside', part.from_us, part.to_us, line.stream,
                    line.origin_us, coalesce(line.end_us::text, 'open') USING ERRCODE = 'MD001';
            END IF;
            begin_us := coalesce(begin_us, part.from_us);
            past_us := part.to_us;
            is_revised := false;
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
                -- A correction may replace what is final and read what was revised since, if it reads that.
                since := NULL;
                IF args.cause = 'correction' AND old.stability = 'stable'
                    AND part.stability = 'stable'
                THEN
                    since := medusa.revision_since(old.segment_id, args.lineage);
                    revised_by := greatest(revised_by, since);
                    is_revised := is_revised OR since IS NOT NULL;
                END IF;
                IF since IS NULL
                    AND (old.stability <> 'tentative' OR part.stability = 'tentative')
                THEN
                    RAISE EXCEPTION 'segment [%, %) of % is % over [%, %): '
                        'read again and decide again', part.from_us, part.to_us, line.stream,
                        old.stability, old.from_us, old.to_us USING ERRCODE = 'MD002';
                END IF;
                IF old.segment_id <> ALL (olds) THEN
                    olds := olds || old.segment_id;
                END IF;
            END LOOP;
            IF NOT is_revised THEN
                kept_us := coalesce(kept_us, part.from_us);
            END IF;
        END LOOP;
        IF revised_by IS NOT NULL AND kept_us IS NOT NULL THEN
            RAISE EXCEPTION 'a commit of % replaces final rows, but none from % on (S13): '
                'commit these ranges apart', line.stream, kept_us USING ERRCODE = 'MD001';
        END IF;
        IF revised_by IS NOT NULL THEN
            PERFORM medusa.revise_line(line.line_id, line.version, parts, r.because, r.who)
            FROM medusa.recall AS r WHERE r.recall_id = revised_by;
        END IF;
        FOREACH old_id IN ARRAY olds LOOP
            PERFORM medusa.supersede(old_id, line.version, parts);
        END LOOP;

        -- 5 Write segments and files, and move the boundary (S1).
        INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version,
            plan, commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
        SELECT line.line_id, r.from_us, r.to_us, r.stability, line.version, line.version,
            args.plan, made.commit_id, greatest(medusa.to_ms(clock) - r.fresh_ms, 0), r.missing,
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
            RAISE EXCEPTION '% was recalled and is at %: read again and decide again',
                line.stream, at_us USING ERRCODE = 'MD002';
        END IF;
        end_at := line.end_us;
        IF args.ends AND at_us < forever THEN
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
    SELECT made.commit_id, r.* FROM ROWS FROM (jsonb_to_recordset(args.lineage) AS
        (output text, position integer, input text, participant text, replica integer,
         from_us bigint, to_us bigint, read_version bigint, drop_rate double precision,
         content text)) AS r;
    PERFORM medusa.write_quarantine(args.quarantine, made.commit_id, NULL);
    INSERT INTO medusa.step_metrics (commit_id, records_in, records_out, spark_jobs, phases_ms)
    SELECT made.commit_id, m.* FROM jsonb_to_record(args.metrics) AS m
        (records_in bigint, records_out bigint, spark_jobs integer, phases_ms jsonb);

    PERFORM pg_notify('medusa_progress', '');  -- heard after the commit, several as one
    RETURN medusa.answer(made, false);
END $$;
COMMENT ON FUNCTION medusa.commit_step(jsonb) IS
    'One step''s results in one piece: the numbers are those of design 7.5 and of the interface.';
