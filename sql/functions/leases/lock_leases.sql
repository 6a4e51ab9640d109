CREATE OR REPLACE FUNCTION medusa.lock_leases(requests jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- In one order, whoever asks: leases come before all else that a writer locks.
    PERFORM FROM medusa.lease AS l
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) IN (
        SELECT w.fragment, w.partition, w.participant, w.replica, w.lane
        FROM jsonb_to_recordset(requests) AS w (fragment text, partition integer, participant text,
            replica integer, lane medusa.lane))
    ORDER BY l.fragment, l.partition, l.participant, l.replica, l.lane
    FOR UPDATE OF l;
END $$;
COMMENT ON FUNCTION medusa.lock_leases(jsonb) IS 'Lock leases that are there, in one order.';
