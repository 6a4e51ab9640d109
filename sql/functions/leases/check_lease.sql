CREATE OR REPLACE FUNCTION medusa.check_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text
) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held  medusa.lease;
    clock timestamptz;
BEGIN
    -- NULL equals nothing and differs from nothing: it must not pass a comparison below.
    IF num_nulls(check_lease.fragment, check_lease.partition, check_lease.participant,
        check_lease.replica, check_lease.lane, check_lease.epoch, check_lease.holder) > 0
    THEN
        RAISE EXCEPTION 'the lease of % is not named in full: give fragment, partition, '
            'participant, replica, lane, epoch and holder', check_lease.fragment
            USING ERRCODE = 'MD001';
    END IF;
    SELECT * INTO held FROM medusa.lease AS l
    WHERE l.fragment = check_lease.fragment AND l.partition = check_lease.partition
        AND l.participant = check_lease.participant AND l.replica = check_lease.replica
        AND l.lane = check_lease.lane
    FOR UPDATE;
    clock := clock_timestamp();  -- after the lock: it may have been waited for
    IF held.holder IS DISTINCT FROM check_lease.holder
        OR held.epoch IS DISTINCT FROM check_lease.epoch
    THEN
        RAISE EXCEPTION 'the lease of % is not held by % under epoch %: acquire it',
            check_lease.fragment, check_lease.holder, check_lease.epoch USING ERRCODE = 'MDS08';
    END IF;
    IF held.expires_at IS NULL OR held.expires_at <= clock THEN
        RAISE EXCEPTION 'the lease of % expired at %: acquire it again and decide again',
            check_lease.fragment, held.expires_at USING ERRCODE = 'MDS08';
    END IF;
    PERFORM medusa.check_epoch(check_lease.fragment, check_lease.partition,
        check_lease.participant, check_lease.replica, check_lease.epoch);
    RETURN clock;
END $$;
COMMENT ON FUNCTION medusa.check_lease(text, integer, text, integer, medusa.lane, bigint, text) IS
    'S8: locks the lease, raises unless it is held and not expired; returns the clock.';
