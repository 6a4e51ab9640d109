CREATE OR REPLACE FUNCTION medusa.renew_leases(requests jsonb, ttl_ms bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one     record;
    until   timestamptz;
    answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(requests)]);
    state   text;
    message    text;
BEGIN
    PERFORM medusa.lock_leases(requests);
    until := clock_timestamp() + renew_leases.ttl_ms * interval '1 millisecond';
    FOR one IN
        UPDATE medusa.lease AS l SET expires_at = until
        FROM ROWS FROM (jsonb_to_recordset(requests) AS (fragment text, partition integer,
            participant text, replica integer, lane medusa.lane, epoch bigint, holder text))
            WITH ORDINALITY AS w (fragment, partition, participant, replica, lane, epoch, holder, i)
        WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
                (w.fragment, w.partition, w.participant, w.replica, w.lane)
            AND (l.holder, l.epoch) = (w.holder, w.epoch) AND l.expires_at > clock_timestamp()
            AND (SELECT (a.epoch, a.participant) = (w.epoch, w.participant)
                FROM medusa.assignment AS a
                WHERE a.fragment = w.fragment AND a.partition = w.partition
                    AND a.replica = w.replica
                ORDER BY a.epoch DESC LIMIT 1)
        RETURNING w.i
    LOOP
        answers[one.i] := to_jsonb(medusa.to_ms(until));
    END LOOP;
    FOR one IN
        SELECT w.* FROM ROWS FROM (jsonb_to_recordset(requests) AS (fragment text,
            partition integer, participant text, replica integer, lane medusa.lane, epoch bigint,
            holder text))
            WITH ORDINALITY AS w (fragment, partition, participant, replica, lane, epoch, holder, i)
        WHERE answers[w.i] IS NULL
        ORDER BY w.fragment COLLATE "C", w.partition, w.participant COLLATE "C", w.replica, w.lane
    LOOP
        BEGIN
            answers[one.i] := to_jsonb(medusa.renew_lease(one.fragment, one.partition,
                one.participant, one.replica, one.lane, one.epoch, one.holder,
                renew_leases.ttl_ms));
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
            answers[one.i] := jsonb_build_object('sqlstate', state, 'message', message);
        END;
    END LOOP;
    RETURN to_jsonb(answers);
END $$;
COMMENT ON FUNCTION medusa.renew_leases(jsonb, bigint) IS
    'Renew several leases; returns for each its end in ms, or the error that refuses it.';
