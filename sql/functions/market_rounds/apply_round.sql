CREATE OR REPLACE FUNCTION medusa_market.apply_round(request jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades medusa_market.market := medusa_market.begin_market();
    one    jsonb;
    going  integer;
BEGIN
    IF trades.changes - 1 IS DISTINCT FROM (request->>'changes')::bigint
        OR medusa_market.this_round() IS DISTINCT FROM (request->>'round')::bigint
    THEN
        RAISE EXCEPTION 'others have offered or answered meanwhile: read again'
            USING ERRCODE = 'MD002';
    END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'offers') LOOP
        PERFORM medusa_market.make_offer(one, trades);
    END LOOP;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'answers') LOOP
        PERFORM medusa_market.give_answer(one, trades);
    END LOOP;
    UPDATE medusa_market.agreed_move AS m SET state = 'accepted'
    WHERE m.move_id IN (SELECT l::bigint FROM jsonb_array_elements_text(request->'leaves') AS l)
        AND m.is_given AND m.state = 'granted';
    GET DIAGNOSTICS going = ROW_COUNT;
    IF going <> jsonb_array_length(request->'leaves') THEN
        RAISE EXCEPTION 'what was to be handed on has lapsed: read again' USING ERRCODE = 'MD002';
    END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'ends') LOOP
        PERFORM medusa_market.note_settled(m.move_id,
            CASE WHEN m.is_given THEN 'returning' ELSE 'ended' END, one->>'because')
        FROM medusa_market.move AS m WHERE m.move_id = (one->>'move_id')::bigint
            AND m.state IN ('started', 'released');
    END LOOP;
    INSERT INTO medusa_market.requested_load AS w (contract, revision, nonce, load, smallest,
        for_overload,
        reported_level)
    SELECT r.contract, r.revision, r.nonce, r.load, r.smallest, r.for_overload, r.reported_level
    FROM jsonb_to_recordset(request->'wanted') AS r (contract text, revision text, nonce text,
        load double precision, smallest double precision, for_overload boolean, reported_level integer)
    ON CONFLICT (contract) DO UPDATE SET (revision, nonce, load, smallest, for_overload, reported_level)
        = (EXCLUDED.revision, EXCLUDED.nonce, EXCLUDED.load, EXCLUDED.smallest,
            EXCLUDED.for_overload, EXCLUDED.reported_level);
    IF (request->>'decides')::boolean THEN
        UPDATE medusa_market.market AS m SET decided_round = (request->>'round')::bigint;
    END IF;
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_market.apply_round(jsonb) IS
    'Record this participant''s decisions: offers, answers, moves that end, and the messages, all '
    'or nothing; a conflict if anything was offered or answered since they were decided.';
