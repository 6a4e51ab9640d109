CREATE OR REPLACE FUNCTION medusa.check_epoch(
    fragment text, partition integer, participant text, replica integer, epoch bigint
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest record;
BEGIN
    SELECT a.epoch, a.participant INTO newest FROM medusa.assignment AS a
    WHERE a.fragment = check_epoch.fragment AND a.partition = check_epoch.partition
        AND a.replica = check_epoch.replica
    ORDER BY a.epoch DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fragment % is not assigned to anybody: deploy it first',
            check_epoch.fragment USING ERRCODE = 'MD001';
    END IF;
    IF newest.epoch IS DISTINCT FROM check_epoch.epoch
        OR newest.participant IS DISTINCT FROM check_epoch.participant
    THEN
        RAISE EXCEPTION 'fragment % is assigned to %/% under epoch %, not to %/% under epoch %: '
            'read the assignment again', check_epoch.fragment, newest.participant,
            check_epoch.replica, newest.epoch, check_epoch.participant, check_epoch.replica,
            check_epoch.epoch USING ERRCODE = 'MDS08';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_epoch(text, integer, text, integer, bigint) IS
    'S8: raises unless this epoch is the newest that the home knows.';
