CREATE OR REPLACE FUNCTION medusa_market.take_moved(envelope_id bigint, contract text,
    number bigint, state text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    known    medusa_market.move;
BEGIN
    PERFORM medusa_market.begin_market();
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT m.* INTO known FROM medusa_market.move AS m
    WHERE m.is_given AND (m.partner, m.number, m.contract) =
        (envelope.sender, take_moved.number, take_moved.contract) FOR UPDATE;
    IF known.state = 'accepted' AND take_moved.state = 'started' THEN
        PERFORM medusa_market.note_settled(known.move_id, 'started', take_moved.reason);
    ELSIF known.state IN ('accepted', 'started') AND take_moved.state = 'ended' THEN
        PERFORM medusa_market.note_settled(known.move_id, 'ended', take_moved.reason);
    ELSIF known.state = 'released' AND take_moved.state = 'ended' THEN
        PERFORM medusa_market.note_settled(known.move_id, 'returning', take_moved.reason);
    ELSIF known.state = 'ended' AND take_moved.state = 'started' THEN
        PERFORM medusa_market.put_move(known);
    ELSE
        RETURN 'nothing';
    END IF;
    RETURN take_moved.state;
END $$;
COMMENT ON FUNCTION medusa_market.take_moved(bigint, text, bigint, text, text) IS
    'A provider states that it computes the fragment of a move, or does so no more.';
