CREATE OR REPLACE FUNCTION medusa_market.take_move(envelope_id bigint, contract text, number bigint,
    fragment text, state text, order_document text, price numeric, from_us bigint, to_us bigint,
    lost_us bigint, reason text, commitment bytea, first_period bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    known    medusa_market.move;
    terms    medusa_market.contract_revision;
    agreed   bigint;
    refusal  text;
BEGIN
    PERFORM FROM medusa.home FOR UPDATE;
    PERFORM medusa_market.begin_market();
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT m.* INTO known FROM medusa_market.move AS m
    WHERE NOT m.is_given AND (m.partner, m.number) = (envelope.sender, take_move.number)
    FOR UPDATE;
    IF known.move_id IS NOT NULL AND (known.contract, known.fragment) IS DISTINCT FROM
        (take_move.contract, take_move.fragment)
    THEN
        RAISE EXCEPTION 'move % of % is another one', take_move.number, envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF take_move.state <> 'accepted' THEN
        IF known.move_id IS NULL AND take_move.state = 'ended' THEN
            -- Its order may come later: it counts no more.
            INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
                order_document, reason)
            VALUES (false, envelope.sender, take_move.contract, take_move.number,
                take_move.fragment, 'ended', '', take_move.reason);
        ELSIF coalesce(known.from_us, take_move.from_us) > take_move.to_us THEN
            RAISE EXCEPTION 'move % of % ends before it began', take_move.number, envelope.sender
                USING ERRCODE = 'MD001';
        ELSIF take_move.from_us NOT BETWEEN (nullif(known.order_document, '')::jsonb->>'starts_us')::bigint
            AND medusa.to_ms(clock_timestamp()) * 1000 + 86400000000
        THEN
            RAISE EXCEPTION 'move % of % is not released at %', take_move.number, envelope.sender,
                take_move.from_us USING ERRCODE = 'MD001';
        ELSIF known.move_id IS NOT NULL THEN
            UPDATE medusa_market.billing_position AS b SET counts = b.counts + 1
            WHERE b.contract = known.contract;
            UPDATE medusa_market.move AS m
            SET from_us = coalesce(m.from_us, take_move.from_us),
                to_us = coalesce(m.to_us, take_move.to_us),
                lost_us = coalesce(m.lost_us, take_move.lost_us),
                is_own_loss = coalesce(m.is_own_loss,
                    medusa_market.has_lost(m, take_move.lost_us)),
                payer_has_ended = m.payer_has_ended OR take_move.state = 'ended'
            WHERE m.move_id = known.move_id;
            IF take_move.state = 'ended' THEN
                PERFORM medusa_market.note_settled(known.move_id, 'ended', take_move.reason);
            END IF;
        END IF;
        RETURN take_move.state;
    END IF;
    IF known.move_id IS NOT NULL THEN
        RETURN known.state;
    END IF;
    BEGIN
        terms := medusa_market.terms_of_move(take_move.contract, envelope.sender,
            medusa_market.here(), take_move.fragment);
    EXCEPTION WHEN SQLSTATE 'MD001' THEN
        refusal := SQLERRM;
    END;
    -- Each home counts its own rounds: the contract may be in force there and not here yet.
    IF refusal IS NOT NULL AND EXISTS (
        SELECT FROM medusa_market.contract_agreement AS a
        JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
        WHERE (a.contract, r.payer, r.provider, r.kind) = (take_move.contract, envelope.sender,
                medusa_market.here(), 'movement')
            AND NOT EXISTS (SELECT FROM medusa_market.contract_activation AS v
                WHERE v.contract = a.contract))
    THEN
        RAISE EXCEPTION 'contract % is in force from the next round on: move % waits',
            take_move.contract, take_move.number USING ERRCODE = 'MD002';
    END IF;
    IF refusal IS NULL AND (SELECT count(*) >= 64 FROM medusa_market.move AS m
        WHERE NOT m.is_given AND m.partner = envelope.sender AND m.state <> 'ended')
    THEN
        refusal := envelope.sender || ' has 64 fragments here: it may hand over no more';
    END IF;
    IF refusal IS NULL THEN
        refusal := medusa_market.too_many_moves(false, terms);
    END IF;
    agreed := medusa_market.agreed_as(false, envelope.sender, take_move.contract,
        take_move.fragment);
    IF refusal IS NULL AND take_move.price < medusa_market.price_of_move(terms, agreed) THEN
        refusal := format('%s pays %s for %s, and the price here is %s', envelope.sender,
            take_move.price, take_move.fragment,
            trim_scale(medusa_market.price_of_move(terms, agreed)));
    END IF;
    INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
        order_document, reason, agreed_id, price)
    VALUES (false, envelope.sender, take_move.contract, take_move.number, take_move.fragment,
        'accepted', take_move.order_document, take_move.reason, agreed, take_move.price)
    RETURNING * INTO known;
    INSERT INTO medusa_market.sample_seed (move_id, commitment, first_period)
    SELECT known.move_id, take_move.commitment, take_move.first_period
    WHERE take_move.commitment IS NOT NULL;
    IF refusal IS NOT NULL THEN
        PERFORM medusa_market.note_settled(known.move_id, 'ended', refusal);
        RETURN 'ended';
    END IF;
    RETURN 'accepted';
END $$;
COMMENT ON FUNCTION medusa_market.take_move(bigint, text, bigint, text, text, text, numeric, bigint,
    bigint, bigint, text, bytea, bigint) IS
    'A payer hands a fragment over under a contract in force (accepted), adopts what this home '
    'computes from a bucket on (released), or ends its move.';
