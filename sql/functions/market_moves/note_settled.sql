CREATE OR REPLACE FUNCTION medusa_market.note_settled(move_id bigint, state text, reason text,
    lost_us bigint DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known medusa_market.move;
BEGIN
    SELECT m.* INTO known FROM medusa_market.move AS m
    WHERE m.move_id = note_settled.move_id AND m.state <> note_settled.state
        AND m.state <> 'ended'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    known.state := note_settled.state;
    known.reason := left(note_settled.reason, 500);
    IF known.is_given THEN
        known := medusa_market.with_bounds(known, note_settled.lost_us);
    END IF;
    UPDATE medusa_market.move AS m SET state = known.state, reason = known.reason,
        changed_at = clock_timestamp(), from_us = known.from_us, to_us = known.to_us,
        lost_us = known.lost_us
    WHERE m.move_id = known.move_id;
    IF known.state = 'ended' THEN
        UPDATE medusa_market.agreed_move AS a SET state = 'lapsed', ended_at = clock_timestamp()
        WHERE a.move_id = known.agreed_id AND a.state <> 'lapsed';
    END IF;
    IF known.is_given AND known.state IN ('released', 'ended') THEN
        UPDATE medusa_market.billing_position AS b SET counts = b.counts + 1
        WHERE b.contract = known.contract;
        PERFORM medusa_market.put_move(known);
    ELSIF NOT known.is_given THEN
        PERFORM medusa_market.put_out(known.partner, 'moved', 'moved/' || known.number || '/'
            || known.state, jsonb_build_object('contract', known.contract, 'number', known.number,
                'state', known.state, 'reason', known.reason));
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.note_settled(bigint, text, text, bigint) IS
    'The next state of a move, and the message about it, for a transaction that has begun with '
    'begin_market. False if it was known, or the move has ended.';
