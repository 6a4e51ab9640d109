CREATE OR REPLACE FUNCTION medusa_market.take_move(envelope_id bigint, contract text, number bigint,
    fragment text, order_document text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    known    medusa_market.move;
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
    IF take_move.order_document IS NULL THEN
        IF known.move_id IS NULL THEN
            -- Its order may come later: it counts no more.
            INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
                order_document, reason)
            VALUES (false, envelope.sender, take_move.contract, take_move.number,
                take_move.fragment, 'ended', '', take_move.reason);
            RETURN 'ended';
        END IF;
        PERFORM medusa_market.note_settled(known.move_id, 'ended', take_move.reason);
        RETURN 'ended';
    END IF;
    IF known.move_id IS NOT NULL THEN
        RETURN known.state;
    END IF;
    BEGIN
        PERFORM medusa_market.terms_of_move(take_move.contract, envelope.sender,
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
    INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
        order_document, reason, agreed_id)
    VALUES (false, envelope.sender, take_move.contract, take_move.number, take_move.fragment,
        'accepted', take_move.order_document, take_move.reason,
        medusa_market.agreed_as(false, envelope.sender, take_move.contract, take_move.fragment))
    RETURNING * INTO known;
    IF refusal IS NOT NULL THEN
        PERFORM medusa_market.note_settled(known.move_id, 'ended', refusal);
        RETURN 'ended';
    END IF;
    RETURN 'accepted';
END $$;
COMMENT ON FUNCTION medusa_market.take_move(bigint, text, bigint, text, text, text) IS
    'A payer hands a fragment over under a contract in force, or ends its move (no order).';
