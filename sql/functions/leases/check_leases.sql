CREATE OR REPLACE FUNCTION medusa.check_leases(requests jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    -- Whoever is not plainly right is looked at by check_lease, which says what is wrong.
    FOR bad IN
        SELECT w.* FROM jsonb_to_recordset(requests) AS w (fragment text, partition integer,
            participant text, replica integer, lane medusa.lane, epoch bigint, holder text)
        LEFT JOIN medusa.lease AS l
            ON (l.fragment, l.partition, l.participant, l.replica, l.lane) =
                (w.fragment, w.partition, w.participant, w.replica, w.lane)
        WHERE ((l.holder, l.epoch) = (w.holder, w.epoch) AND l.expires_at > clock_timestamp()
            AND (SELECT (a.epoch, a.participant) = (w.epoch, w.participant)
                FROM medusa.assignment AS a
                WHERE a.fragment = w.fragment AND a.partition = w.partition
                    AND a.replica = w.replica
                ORDER BY a.epoch DESC LIMIT 1)) IS NOT TRUE
        ORDER BY w.fragment COLLATE "C", w.partition, w.participant COLLATE "C", w.replica, w.lane
    LOOP
        PERFORM medusa.check_lease(bad.fragment, bad.partition, bad.participant, bad.replica,
            bad.lane, bad.epoch, bad.holder);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.check_leases(jsonb) IS
    'S8, for many: raises unless each is held and not expired; lock_leases is called before.';
