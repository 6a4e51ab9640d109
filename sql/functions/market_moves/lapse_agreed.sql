CREATE OR REPLACE FUNCTION medusa_market.lapse_agreed(agreed_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.begin_market();
    UPDATE medusa_market.agreed_move AS a SET state = 'lapsed', ended_at = clock_timestamp()
    WHERE a.move_id = lapse_agreed.agreed_id AND a.state <> 'lapsed';
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa_market.lapse_agreed(bigint) IS
    'For jobs: what was agreed in a round comes to nothing, or is over; false if it was before.';
