CREATE OR REPLACE FUNCTION medusa_market.settle_move(move_id bigint, state text, reason text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    known medusa_market.move;
BEGIN
    -- Before the move, as apply_round does: what lies where is knowledge of the market.
    PERFORM medusa_market.begin_market();
    UPDATE medusa_market.move AS m SET state = settle_move.state,
        reason = left(settle_move.reason, 500), changed_at = clock_timestamp()
    WHERE m.move_id = settle_move.move_id AND m.state <> settle_move.state
        AND m.state <> 'ended'
    RETURNING m.* INTO known;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF known.state = 'ended' THEN
        PERFORM medusa_market.lapse_agreed(known.agreed_id);
    END IF;
    IF known.is_given AND known.state = 'ended' THEN
        PERFORM medusa_market.put_out(known.partner, 'move', 'move/' || known.number || '/ended',
            jsonb_build_object('contract', known.contract, 'number', known.number, 'fragment',
                known.fragment, 'order', NULL, 'reason', known.reason));
    ELSIF NOT known.is_given THEN
        PERFORM medusa_market.put_out(known.partner, 'moved', 'moved/' || known.number || '/'
            || known.state, jsonb_build_object('contract', known.contract, 'number', known.number,
                'state', known.state, 'reason', known.reason));
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.settle_move(bigint, text, text) IS
    'For jobs: the next state of a move, and the message about it. False if it was known, or the '
    'move has ended.';
