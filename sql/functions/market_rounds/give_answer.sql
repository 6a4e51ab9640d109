CREATE OR REPLACE FUNCTION medusa_market.give_answer(given_answer jsonb,
    trades medusa_market.market) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message bytea := convert_to(given_answer->>'body', 'UTF8');
    given   jsonb := (given_answer->>'body')::jsonb;
    reports   boolean := (given_answer->>'is_more')::boolean;
    made    medusa_market.offer;
    saved    medusa_market.answer;
    taken   record;
    agreed  medusa_market.contract_revision;
    unclaimed integer;
BEGIN
    SELECT * INTO made FROM medusa_market.offer AS o
    WHERE NOT o.is_own AND o.partner = given_answer->>'to' AND o.contract = given->>'contract'
        AND o.nonce = given->>'nonce';
    IF (convert_from(made.body, 'UTF8')::jsonb->'items' @> (given->'accepted')) IS NOT TRUE THEN
        RAISE EXCEPTION 'the answer does not fit the offer: read it again' USING ERRCODE = 'MD002';
    END IF;
    IF NOT reports THEN
        DELETE FROM medusa_market.open_offer AS o WHERE o.offer_id = made.offer_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the offer % is open no more: read again', made.nonce
                USING ERRCODE = 'MD002';
        END IF;
    END IF;
    IF given->'accepted' <> '[]'
        AND (medusa_market.terms_in_force(made.contract, made.revision)).revision IS NULL
    THEN
        RAISE EXCEPTION 'contract % is not in force as the offer quotes it', made.contract
            USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa_market.answer (offer_id, is_own, is_more, sender_round, reason, accepted, load,
        rooms,
        body, because, round)
    SELECT made.offer_id, true, reports, (given->>'round')::bigint, given->>'reason',
        count(*), coalesce(sum(i.load), 0), given->'rooms', message,
        given_answer->>'because', medusa_market.this_round()
    FROM jsonb_to_recordset(given->'accepted') AS i (load double precision)
    RETURNING * INTO saved;
    FOR taken IN SELECT * FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision)
    LOOP
        INSERT INTO medusa_market.agreed_move (is_given, partner, contract, revision, fragment,
            partition,
            load, level, price, answer_id, state, round, expires_at)
        VALUES (false, made.partner, made.contract, made.revision, taken.fragment, taken.partition,
            taken.load, made.level, made.price, saved.answer_id, 'accepted', saved.round,
            clock_timestamp() + trades.move_ms * interval '1 ms');
    END LOOP;
    -- What makes room for it leaves, each before the one that it makes room for.
    UPDATE medusa_market.agreed_move AS m SET state = 'accepted', makes_room_for = t.move_id
    FROM jsonb_to_recordset(given_answer->'leaves')
        AS l (move_id bigint, fragment text, partition bigint)
    JOIN medusa_market.agreed_move AS t ON t.answer_id = saved.answer_id
        AND (t.fragment, t.partition) = (l.fragment, l.partition)
    WHERE m.move_id = l.move_id AND m.is_given AND m.state = 'granted';
    GET DIAGNOSTICS unclaimed = ROW_COUNT;
    IF unclaimed <> jsonb_array_length(given_answer->'leaves') THEN
        RAISE EXCEPTION 'what was to make room has lapsed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa_market.outbox (receiver, kind, about, body)
    VALUES (made.partner, 'answer', 'answer/' || saved.answer_id, message);
    IF saved.reason = 'revision' THEN
        agreed := medusa_market.agreed_revision(made.contract);
        PERFORM medusa_market.send_agreements(made.contract, made.partner, agreed.number);
        IF NOT EXISTS (SELECT FROM medusa_market.contract_agreement AS a
            WHERE a.revision = made.revision)
        THEN
            PERFORM medusa_market.put_out(made.partner, 'want', 'want/' || made.contract,
                jsonb_build_object('contract', made.contract, 'number', agreed.number + 1));
        END IF;
    END IF;
    INSERT INTO medusa_market.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, true, saved.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa_market.write_audit('answers', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
END $$;
COMMENT ON FUNCTION medusa_market.give_answer(jsonb, medusa_market.market) IS
    'Answer an offer, or report headroom again: accepted items are agreed. A sender that '
    'quotes another revision is sent the one that is agreed here.';
