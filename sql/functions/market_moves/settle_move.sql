CREATE OR REPLACE FUNCTION medusa_market.settle_move(move_id bigint, state text, reason text,
    lost_us bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    -- Where load is computed is knowledge of the market.
    PERFORM medusa_market.begin_market();
    RETURN medusa_market.note_settled(move_id, state, reason, lost_us);
END $$;
COMMENT ON FUNCTION medusa_market.settle_move(bigint, text, text, bigint) IS
    'For jobs: the next state of a move, and the message about it. False if it was known, or the '
    'move has ended.';
