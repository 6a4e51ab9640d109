CREATE OR REPLACE FUNCTION medusa.acquire_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text, ttl_ms bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held  medusa.lease;
    until timestamptz;
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.fragment AS f WHERE f.id = acquire_lease.fragment) THEN
        RAISE EXCEPTION 'fragment % is not deployed here: deploy it first', acquire_lease.fragment
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.lease VALUES (acquire_lease.fragment, acquire_lease.partition,
        acquire_lease.participant, acquire_lease.replica, acquire_lease.lane,
        acquire_lease.epoch, acquire_lease.holder, '-infinity')
    ON CONFLICT DO NOTHING;
    SELECT * INTO held FROM medusa.lease AS l
    WHERE l.fragment = acquire_lease.fragment AND l.partition = acquire_lease.partition
        AND l.participant = acquire_lease.participant AND l.replica = acquire_lease.replica
        AND l.lane = acquire_lease.lane
    FOR UPDATE;
    PERFORM medusa.check_epoch(acquire_lease.fragment, acquire_lease.partition,
        acquire_lease.participant, acquire_lease.replica, acquire_lease.epoch);
    IF held.holder <> acquire_lease.holder AND held.expires_at > clock_timestamp() THEN
        RAISE EXCEPTION 'the lease of % is held by % until %: wait for its end',
            acquire_lease.fragment, held.holder, held.expires_at USING ERRCODE = 'MDS08';
    END IF;
    until := clock_timestamp() + acquire_lease.ttl_ms * interval '1 millisecond';
    UPDATE medusa.lease AS l
    SET epoch = acquire_lease.epoch, holder = acquire_lease.holder, expires_at = until
    WHERE l.fragment = acquire_lease.fragment AND l.partition = acquire_lease.partition
        AND l.participant = acquire_lease.participant AND l.replica = acquire_lease.replica
        AND l.lane = acquire_lease.lane;
    RETURN medusa.to_ms(until);
END $$;
COMMENT ON FUNCTION
    medusa.acquire_lease(text, integer, text, integer, medusa.lane, bigint, text, bigint) IS
    'Take a free or expired lease, or renew one''s own; returns its end in ms.';
