CREATE OR REPLACE FUNCTION medusa.promise_many(requests jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    bad record;
BEGIN
    PERFORM medusa.lock_leases(requests);
    PERFORM medusa.check_leases(requests);
    PERFORM medusa.lock_lines(requests);
    -- What promise would refuse it does refuse, in its words.
    FOR bad IN
        SELECT w.* FROM jsonb_to_recordset(requests) AS w (fragment text, partition integer,
            participant text, replica integer, lane medusa.lane, epoch bigint, holder text,
            stream text, origin_us bigint, boundary_us bigint, end_us bigint)
        JOIN medusa.stream_producer AS p
            ON (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica)
        JOIN medusa.stream AS s ON s.name = w.stream
        WHERE s.kind <> 'source' OR (w.origin_us % s.width_us = 0) IS NOT TRUE
            OR w.end_us % s.width_us <> 0 OR w.end_us < w.origin_us
            OR EXISTS (SELECT FROM medusa.landed_bucket AS b
                WHERE b.line_id = p.line_id AND b.bucket_us >= w.end_us)
            OR EXISTS (SELECT FROM medusa.landed_bucket AS b
                WHERE b.line_id = p.line_id AND b.bucket_us < w.origin_us)
    LOOP
        PERFORM medusa.promise(bad.fragment, bad.partition, bad.participant, bad.replica, bad.lane,
            bad.epoch, bad.holder, bad.stream, bad.origin_us, bad.boundary_us, bad.end_us);
    END LOOP;
    UPDATE medusa.stream_producer AS p
    SET origin_us = w.origin_us,
        boundary_us = CASE
            WHEN coalesce(p.boundary_us, w.origin_us) >= w.end_us THEN 9223372036854775807
            ELSE coalesce(p.boundary_us, w.origin_us) END,
        promised_us = w.boundary_us,
        end_us = coalesce(w.end_us, p.end_us)
    FROM jsonb_to_recordset(requests) AS w (participant text, replica integer, stream text,
        origin_us bigint, boundary_us bigint, end_us bigint)
    WHERE (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.promise_many(jsonb) IS
    'Promises of several sources, all or none: no later record before their boundary_us.';
