CREATE OR REPLACE FUNCTION medusa_market.note_settled(move_id bigint, state text, reason text)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known medusa_market.move;
BEGIN
    UPDATE medusa_market.move AS m SET state = note_settled.state,
        reason = left(note_settled.reason, 500), changed_at = clock_timestamp()
    WHERE m.move_id = note_settled.move_id AND m.state <> note_settled.state
        AND m.state <> 'ended'
    RETURNING m.* INTO known;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF known.state = 'ended' THEN
        UPDATE medusa_market.agreed_move AS a SET state = 'lapsed', ended_at = clock_timestamp()
        WHERE a.move_id = known.agreed_id AND a.state <> 'lapsed';
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
COMMENT ON FUNCTION medusa_market.note_settled(bigint, text, text) IS
    'The next state of a move, and the message about it, for a transaction that has begun with '
    'begin_market. False if it was known, or the move has ended.';
