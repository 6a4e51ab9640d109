CREATE OR REPLACE FUNCTION medusa_market.begin_move(contract text, number bigint, fragment text,
    order_document text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here     text := medusa_market.here();
    provider text;
    terms    medusa_market.contract_revision;
    begun    medusa_market.move;
BEGIN
    -- One after the other, so that the numbers below are those of all.
    PERFORM FROM medusa.home FOR UPDATE;
    SELECT c.provider INTO provider FROM medusa_api.contract_in_force AS c
    WHERE c.contract = begin_move.contract AND c.payer = here;
    terms := medusa_market.terms_of_move(begin_move.contract, here, provider, begin_move.fragment);
    IF EXISTS (SELECT FROM medusa_market.move AS m
        WHERE m.is_given AND m.fragment = begin_move.fragment AND m.state <> 'ended')
    THEN
        RAISE EXCEPTION 'fragment % is moving or has moved already: end that move first',
            begin_move.fragment USING ERRCODE = 'MD001';
    END IF;
    IF begin_move.number IS DISTINCT FROM medusa_market.next_move() THEN
        RAISE EXCEPTION 'another move has begun meanwhile: read again' USING ERRCODE = 'MD002';
    END IF;
    PERFORM medusa_market.begin_market();
    IF medusa_market.too_many_moves(true, terms) IS NOT NULL THEN
        RAISE EXCEPTION '%', medusa_market.too_many_moves(true, terms) USING ERRCODE = 'MD001';
    END IF;
    begun.agreed_id := medusa_market.agreed_as(true, provider, begin_move.contract,
        begin_move.fragment);
    INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
        order_document, reason, agreed_id, price)
    VALUES (true, provider, begin_move.contract, begin_move.number, begin_move.fragment,
        'accepted', begin_move.order_document, begin_move.reason, begun.agreed_id,
        medusa_market.price_of_move(terms, begun.agreed_id))
    RETURNING * INTO begun;
    PERFORM medusa_market.commit_seed(begun.move_id, begin_move.contract);
    PERFORM medusa_market.put_move(begun);
    RETURN begun.move_id;
END $$;
COMMENT ON FUNCTION medusa_market.begin_move(text, bigint, text, text, text) IS
    'For jobs of the payer: hand a fragment over under a movement contract in force, with the next '
    'number.';
