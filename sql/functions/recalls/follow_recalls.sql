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
        WHERE f.line_id = line.line_id AND f.generation = last AND NOT f.is_revision
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
COMMENT ON FUNCTION medusa.follow_recalls(integer, jsonb, bigint, jsonb, text) IS
    'Take back the rows that a partner''s news takes back, with all that was computed from '
    'them here, if the operator of this home agreed or nothing of them was read.';
