CREATE OR REPLACE FUNCTION medusa.recall(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    args record;
    line  record;
    again jsonb;
    one   record;
    done  jsonb;
    plan  jsonb := '[]';
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (stream text, participant text,
        replica integer, from_us bigint, because text, who text, follows integer, needed jsonb,
        stays jsonb, explain boolean);
    PERFORM medusa.check_reason(args.because, args.who);

    -- 1 May it be?
    SELECT p.*, s.kind, s.width_us, p.participant = h.participant AS is_own INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    CROSS JOIN medusa.home AS h
    WHERE (p.stream, p.participant, p.replica) = (args.stream, args.participant, args.replica);
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(args.stream, args.participant, args.replica);
    END IF;
    IF line.is_own <> (args.follows IS NULL) THEN
        RAISE EXCEPTION 'the line of % by %/% is %', args.stream, args.participant, args.replica,
            CASE WHEN line.is_own THEN 'written here: recall it, there is nobody to follow'
            ELSE 'a partner''s: let the partner recall it, and follow' END USING ERRCODE = 'MD001';
    END IF;
    IF (args.from_us % line.width_us = 0) IS NOT TRUE THEN
        RAISE EXCEPTION '% cannot be recalled from % on, off its grid: give a multiple of % us',
            args.stream, args.from_us, line.width_us USING ERRCODE = 'MD001';
    END IF;
    IF (args.from_us >= line.origin_us) IS NOT TRUE THEN
        RAISE EXCEPTION '% begins at %: recall it from there on, or later', args.stream,
            coalesce(line.origin_us::text, 'no time yet') USING ERRCODE = 'MD001';
    END IF;
    SELECT max(r.generation) AS generation INTO one FROM medusa.recall AS r
    WHERE line.is_own AND line.kind = 'source' AND r.line_id = line.line_id
        AND upper(r.changed) > args.from_us;
    IF one.generation IS NOT NULL THEN
        RAISE EXCEPTION '% was revised behind % (generation %), which its landed records lack: '
            'revise it again', args.stream, args.from_us, one.generation USING ERRCODE = 'MD001';
    END IF;

    BEGIN
        -- 2 Hold what is to be read again; holds come before locks of lines, as in a trim.
        again := medusa.recall_closure(line.line_id, args.from_us);
        PERFORM FROM medusa.stream_order AS o
        WHERE o.stream IN (
            SELECT p.stream FROM jsonb_object_keys(again) AS k
            JOIN medusa.stream_producer AS p ON p.line_id = k::integer
            UNION SELECT i.stream FROM jsonb_each(args.needed) AS f (id, inputs),
                jsonb_object_keys(f.inputs) AS i (stream))
        ORDER BY o.stream FOR SHARE;
        UPDATE medusa.hold AS h SET from_us = least(h.from_us, k.value::bigint)
        FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
            ON p.line_id = k.key::integer
        WHERE h.stream = p.stream AND h.purpose IN ('import', 'changes', 'delivery')
            AND h.from_us > k.value::bigint;
        PERFORM medusa.hold_again(args.needed);

        -- 3 Nothing is committed from here on; look again.
        IF NOT line.is_own THEN
            PERFORM FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id FOR UPDATE;
        END IF;
        PERFORM medusa.lock_own_lines();
        IF again <> medusa.recall_closure(line.line_id, args.from_us) THEN
            RAISE EXCEPTION 'more was computed of % while it was looked at: recall it again',
                args.stream USING ERRCODE = 'MD002';
        END IF;

        -- 4 Is all of it there, and can be computed again?
        -- What comes behind goes as far as it is kept; a partner's recall asks nobody how far.
        IF line.is_own AND args.from_us < medusa.kept_from(line.line_id) THEN
            RAISE EXCEPTION '% is trimmed before % and cannot be computed again from % on: recall '
                'from a later bucket, such as %', args.stream, medusa.kept_from(line.line_id),
                args.from_us, medusa.kept_from(line.line_id) USING ERRCODE = 'MD001';
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
                RAISE EXCEPTION '% reads % from % on to compute again, which is trimmed before %: '
                    'recall from a later bucket', one.id, one.stream, one.from_us, one.kept_us
                    USING ERRCODE = 'MD001';
            END IF;
        END LOOP;

        -- 5 Take it back, and say so; a partner's is taken back when its news comes.
        IF args.follows IS NOT NULL THEN
            IF args.follows <= line.generation THEN
                RAISE EXCEPTION 'the line of % by % is followed to generation % already',
                    args.stream, args.participant, line.generation USING ERRCODE = 'MD001';
            END IF;
            INSERT INTO medusa.recall_follow (line_id, generation, from_us, because, who, stays)
            VALUES (line.line_id, args.follows, args.from_us, args.because, args.who,
                coalesce(args.stays, '{}'));
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        FOR one IN
            SELECT p.line_id, greatest(k.value::bigint, medusa.kept_from(p.line_id),
                CASE WHEN p.line_id <> line.line_id THEN (args.stays->>p.stream)::bigint END)
                AS from_us
            FROM jsonb_each_text(again) AS k JOIN medusa.stream_producer AS p
                ON p.line_id = k.key::integer
            ORDER BY p.line_id <> line.line_id, p.stream, p.participant, p.replica
        LOOP
            IF args.follows IS NULL THEN
                done := medusa.recall_line(one.line_id, one.from_us, args.because, args.who);
            ELSE
                done := medusa.recall_document(one.line_id, one.from_us,
                    CASE WHEN one.line_id = line.line_id THEN args.follows END, args.because,
                    args.who);
            END IF;
            IF done IS NULL AND one.line_id = line.line_id THEN
                RAISE EXCEPTION '% reaches to % only: there is nothing to recall from % on',
                    args.stream, line.boundary_us, args.from_us USING ERRCODE = 'MD001';
            END IF;
            plan := plan || coalesce(done, '[]');
        END LOOP;
        IF args.explain THEN
            RAISE EXCEPTION 'only asked for' USING ERRCODE = 'MDASK';
        END IF;
    EXCEPTION WHEN SQLSTATE 'MDASK' THEN
        NULL;  -- what was done in this block is undone
    END;
    RETURN plan;
END $$;
COMMENT ON FUNCTION medusa.recall(jsonb) IS
    'Take back the rows of a line from a bucket on and all in this home that was computed from '
    'them, in one piece, or agree to a partner''s recall: the numbers are those of the '
    'interface.';
