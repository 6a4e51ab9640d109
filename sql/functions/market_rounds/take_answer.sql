CREATE OR REPLACE FUNCTION medusa_market.take_answer(envelope_id bigint, keeps jsonb,
    judged_at bigint)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades   medusa_market.market := medusa_market.begin_market();
    envelope medusa_market.inbox;
    given    jsonb;
    made     medusa_market.offer;
    is_open  boolean;
    saved     medusa_market.answer;
BEGIN
    -- 1 To which offer? What is kept of it was judged from what stood here then.
    IF trades.changes - 1 IS DISTINCT FROM coalesce(judged_at, trades.changes - 1) THEN
        RAISE EXCEPTION 'others have offered or answered meanwhile: read again'
            USING ERRCODE = 'MD002';
    END IF;
    envelope := medusa_market.end_envelope(take_answer.envelope_id);
    given := convert_from(envelope.body, 'UTF8')::jsonb;
    SELECT * INTO made FROM medusa_market.offer AS o
    WHERE o.is_own AND o.partner = envelope.sender AND o.contract = given->>'contract'
        AND o.nonce = given->>'nonce';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'it answers an offer that was never made to %', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT (convert_from(made.body, 'UTF8')::jsonb->'items') @> (given->'accepted') THEN
        RAISE EXCEPTION 'it accepts what was not offered' USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa_market.open_offer AS o WHERE o.offer_id = made.offer_id;
    is_open := FOUND;
    DELETE FROM medusa_market.silent_partner AS s WHERE s.partner = envelope.sender;

    -- 2 An offer is answered once; then there may be word of room.
    IF NOT is_open AND given->'accepted' <> '[]' THEN
        RAISE EXCEPTION 'the offer % before it came: nothing of it is taken',
            CASE WHEN EXISTS (SELECT FROM medusa_market.answer AS a
                WHERE a.offer_id = made.offer_id)
                THEN 'was answered' ELSE 'had lapsed' END USING ERRCODE = 'MD001';
    END IF;
    IF NOT is_open AND (SELECT count(*) FROM medusa_market.answer AS a
        JOIN medusa_market.offer AS o ON o.offer_id = a.offer_id
        WHERE o.partner = envelope.sender AND a.is_more
            AND a.round = medusa_market.this_round()) >= 64
    THEN
        RAISE EXCEPTION '% has reported headroom 64 times in this round: further reports are ignored',
            envelope.sender USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.answer (offer_id, is_own, is_more, sender_round, reason, accepted, load,
        rooms,
        body, round)
    SELECT made.offer_id, false, NOT is_open, (given->>'round')::bigint, given->>'reason', count(*),
        coalesce(sum(i.load), 0), given->'rooms', envelope.body, medusa_market.this_round()
    FROM jsonb_to_recordset(given->'accepted') AS i (load double precision)
    RETURNING * INTO saved;

    -- 3 What is accepted is given, or granted so that this home may take something itself. What
    -- does not pay any more is not.
    INSERT INTO medusa_market.agreed_move (is_given, partner, contract, revision, fragment,
        partition, load,
        level, price, answer_id, state, round, expires_at, ended_at)
    SELECT true, made.partner, made.contract, made.revision, i.fragment, i.partition, i.load,
        made.level, made.price, saved.answer_id,
        CASE WHEN k.is_lapsed THEN 'lapsed' WHEN made.relays THEN 'granted' ELSE 'accepted' END,
        saved.round, clock_timestamp() + trades.move_ms * interval '1 ms',
        CASE WHEN k.is_lapsed THEN clock_timestamp() END
    FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision),
        LATERAL (SELECT NOT coalesce(
            keeps @> jsonb_build_array(jsonb_build_array(i.fragment, i.partition)), true)
            AS is_lapsed) AS k;
    INSERT INTO medusa_market.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, false, saved.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa_market.write_audit('answered', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
    RETURN saved.answer_id;
END $$;
COMMENT ON FUNCTION medusa_market.take_answer(bigint, jsonb, bigint) IS
    'A verified answer ends the offer that it names, and the items that it accepts are agreed; '
    'refused if they were never offered, or no longer are. Only `keeps` (fragment and '
    'partition; NULL: all) of them are given, the rest lapses: it was decided at this count of '
    'changes of the market. Returns its number.';
