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
    views   jsonb;
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
    -- Before the line is locked: the last records of a view may be in many segments.
    SELECT jsonb_object_agg('view:' || v.name, medusa.view_begins(v.stream, v.records,
        v.duration_us))
    INTO views FROM medusa.stream_view AS v
    WHERE v.stream = trim_line.stream AND v.from_us IS NULL;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (trim_line.stream, trim_line.participant, trim_line.replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(trim_line.stream, trim_line.participant,
            trim_line.replica);
    END IF;

    BEGIN
        -- 2 Move views on to the end of the stream, which is where their hold begins.
        UPDATE medusa.hold AS h SET from_us = (views->>h.holder)::bigint
        WHERE h.stream = trim_line.stream AND h.purpose = 'view'
            AND h.from_us < (views->>h.holder)::bigint;

        -- Hold what this home's own fragments read or adopt; one that does not say needs all.
        SELECT coalesce(array_agg(DISTINCT n.fragment), '{}')
            || ARRAY(SELECT medusa.adopting_fragments(trim_line.stream)) INTO readers
        FROM (
            SELECT DISTINCT ON (a.fragment, a.partition, a.replica) a.fragment, a.participant
            FROM medusa.assignment AS a JOIN medusa.fragment AS f ON f.id = a.fragment
            WHERE trim_line.stream = ANY (f.inputs) AND f.stopped_at IS NULL
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
            (SELECT k.from_us, h.holder, h.purpose, h.placed_at, h.limit_ms
            FROM medusa.hold AS h CROSS JOIN medusa.held_from(h, line) AS k (from_us)
            WHERE h.stream = trim_line.stream AND medusa.is_held(h)
            ORDER BY k.from_us, h.holder, h.purpose LIMIT 1)
            UNION ALL
            (SELECT t.from_us, NULL, 'tentative', NULL, NULL FROM medusa.segment AS t
            WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
            ORDER BY t.to_us LIMIT 1)
            UNION ALL
            SELECT coalesce(least(line.boundary_us, line.end_us), -9223372036854775808), NULL,
                'boundary', NULL, NULL
            UNION ALL
            SELECT medusa.chosen_through(line.stream), NULL, 'choice', NULL, NULL
            WHERE line.replica >= 0 AND medusa.chosen_through(line.stream) IS NOT NULL
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
COMMENT ON FUNCTION medusa.trim_line(text, text, integer, bigint, jsonb, integer, boolean) IS
    'Trim a line as far as nothing holds it: the numbers are those of the interface.';
