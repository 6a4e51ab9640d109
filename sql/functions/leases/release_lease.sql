CREATE OR REPLACE FUNCTION medusa.release_lease(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held medusa.lease;
BEGIN
    SELECT * INTO held FROM medusa.lease AS l
    WHERE l.fragment = release_lease.fragment AND l.partition = release_lease.partition
        AND l.participant = release_lease.participant AND l.replica = release_lease.replica
        AND l.lane = release_lease.lane
    FOR UPDATE;
    IF held.holder = release_lease.holder AND held.epoch = release_lease.epoch THEN
        UPDATE medusa.lease AS l SET expires_at = least(l.expires_at, clock_timestamp())
        WHERE l.fragment = release_lease.fragment AND l.partition = release_lease.partition
            AND l.participant = release_lease.participant AND l.replica = release_lease.replica
            AND l.lane = release_lease.lane;
    END IF;
END $$;
COMMENT ON FUNCTION
    medusa.release_lease(text, integer, text, integer, medusa.lane, bigint, text) IS
    'Give a lease back; no effect if it is no longer ours.';
