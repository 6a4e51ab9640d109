CREATE OR REPLACE FUNCTION medusa.acquire_leases(requests jsonb, holder text,
    ttl_ms bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one  record;
    ends bigint[] := array_fill(NULL::bigint, ARRAY[jsonb_array_length(requests)]);
BEGIN
    FOR one IN
        SELECT w.* FROM ROWS FROM (jsonb_to_recordset(requests) AS (fragment text,
            partition integer, participant text, replica integer, lane medusa.lane, epoch bigint))
            WITH ORDINALITY AS w (fragment, partition, participant, replica, lane, epoch, i)
        ORDER BY w.fragment COLLATE "C", w.partition, w.participant COLLATE "C", w.replica, w.lane
    LOOP
        ends[one.i] := medusa.acquire_lease(one.fragment, one.partition, one.participant,
            one.replica, one.lane, one.epoch, acquire_leases.holder, acquire_leases.ttl_ms);
    END LOOP;
    RETURN ends;
END $$;
COMMENT ON FUNCTION medusa.acquire_leases(jsonb, text, bigint) IS
    'Take all of several leases or none; returns their ends in ms, in the order of the request.';
