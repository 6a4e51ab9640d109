CREATE OR REPLACE FUNCTION medusa.follow_revision(line_id integer, revision jsonb, segments jsonb,
    refusal text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line  medusa.stream_producer;
    made  record;
    parts jsonb;
    named int8multirange;
    rest  int8multirange;
BEGIN
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE p.line_id = follow_revision.line_id;
    SELECT * INTO made FROM jsonb_to_record(follow_revision.revision) AS r
        (generation integer, version bigint, because text);
    SELECT jsonb_agg(s), range_agg(int8range(r.from_us, r.to_us)) INTO parts, named
    FROM jsonb_array_elements(follow_revision.segments) AS s,
        jsonb_to_record(s) AS r (from_us bigint, to_us bigint, version bigint, end_version bigint)
    WHERE r.end_version IS NULL AND r.version = made.version
        AND (r.to_us <= line.trimmed_us) IS NOT TRUE;
    IF parts IS NULL THEN
        RETURN;  -- nothing of it is kept, here or with the partner
    END IF;

    IF EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE p.stream = line.stream AND p.line_id <> line.line_id)
    THEN
        RAISE EXCEPTION 'partner % revised %, which has several producers here, and a revision of '
            'one of them is not followed: remove the copies, and read the stream again',
            line.participant, line.stream USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream_promise AS p
            WHERE p.stream = line.stream AND p.follows_revisions)
        AND NOT EXISTS (SELECT FROM medusa.recall_follow AS f
            WHERE f.line_id = line.line_id AND f.is_revision AND f.generation >= made.generation
                AND f.from_us <= lower(named))
    THEN
        RAISE EXCEPTION '%', coalesce(follow_revision.refusal, 'a partner revised what is final here')
            USING ERRCODE = 'MD001';
    END IF;
    -- The guards keep all other buckets (S13); what is named has been final here.
    SELECT named * int8multirange(int8range(line.trimmed_us, NULL))
        - coalesce(range_agg(int8range(t.from_us, t.to_us)), '{}') INTO rest
    FROM medusa.segment AS t
    WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability <> 'tentative'
        AND t.to_us > lower(named) AND t.from_us < upper(named);
    IF rest <> '{}' OR made.generation <= line.generation THEN
        RAISE EXCEPTION 'partner % revised % from % on (generation %), which is not final here: '
            'call its operator', line.participant, line.stream, lower(rest), made.generation
            USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.revise_line(line.line_id, made.version, parts, made.because, line.participant,
        made.generation);
    -- Each row is given the ranges over it alone: to read all of them for each is quadratic.
    PERFORM medusa.supersede(t.segment_id, made.version, (
        SELECT jsonb_agg(jsonb_build_object('from_us', lower(r), 'to_us', upper(r)))
        FROM unnest(named * int8multirange(int8range(t.from_us, t.to_us))) AS r))
    FROM medusa.segment AS t
    WHERE t.line_id = line.line_id AND t.end_version IS NULL
        AND t.to_us > lower(named) AND t.from_us < upper(named)
        AND named && int8range(t.from_us, t.to_us);
END $$;
COMMENT ON FUNCTION medusa.follow_revision(integer, jsonb, jsonb, text) IS
    'End the rows of a copy that a partner''s revision replaces, if the stream''s contract or the '
    'operator of this home agrees; all other rows stay (S13).';
