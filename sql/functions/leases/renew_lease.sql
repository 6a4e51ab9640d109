CREATE OR REPLACE FUNCTION medusa.renew_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text, ttl_ms bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM medusa.check_lease(renew_lease.fragment, renew_lease.partition,
        renew_lease.participant, renew_lease.replica, renew_lease.lane, renew_lease.epoch,
        renew_lease.holder);
    until := clock_timestamp() + renew_lease.ttl_ms * interval '1 millisecond';
    UPDATE medusa.lease AS l SET expires_at = until
    WHERE l.fragment = renew_lease.fragment AND l.partition = renew_lease.partition
        AND l.participant = renew_lease.participant AND l.replica = renew_lease.replica
        AND l.lane = renew_lease.lane;
    RETURN medusa.to_ms(until);
END $$;
COMMENT ON FUNCTION
    medusa.renew_lease(text, integer, text, integer, medusa.lane, bigint, text, bigint) IS
    'Renew a lease that is still ours; returns its end in ms.';
