CREATE OR REPLACE FUNCTION medusa.release_leases(requests jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.lock_leases(requests);
    UPDATE medusa.lease AS l SET expires_at = least(l.expires_at, clock_timestamp())
    FROM jsonb_to_recordset(requests) AS w (fragment text, partition integer, participant text,
        replica integer, lane medusa.lane, epoch bigint, holder text)
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
            (w.fragment, w.partition, w.participant, w.replica, w.lane)
        AND (l.holder, l.epoch) = (w.holder, w.epoch);
END $$;
COMMENT ON FUNCTION medusa.release_leases(jsonb) IS
    'Give several leases back; no effect for those that are no longer ours.';
