CREATE OR REPLACE FUNCTION medusa.promise(
    fragment text, partition integer, participant text, replica integer, lane medusa.lane,
    epoch bigint, holder text, stream text, origin_us bigint, boundary_us bigint, end_us bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line record;
    bad  bigint;
BEGIN
    PERFORM medusa.check_lease(promise.fragment, promise.partition, promise.participant,
        promise.replica, promise.lane, promise.epoch, promise.holder);
    PERFORM medusa.check_writes(promise.fragment, promise.stream);
    SELECT p.line_id, p.boundary_us, s.kind, s.width_us INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.stream = promise.stream AND p.participant = promise.participant
        AND p.replica = promise.replica
    FOR UPDATE OF p;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(promise.stream, promise.participant, promise.replica);
    END IF;
    PERFORM medusa.check_lease(promise.fragment, promise.partition, promise.participant,
        promise.replica, promise.lane, promise.epoch, promise.holder);  -- the line was waited for
    IF line.kind <> 'source' THEN
        RAISE EXCEPTION '% is computed, not landed: only a source makes promises', promise.stream
            USING ERRCODE = 'MD001';
    END IF;
    IF promise.origin_us % line.width_us <> 0 OR promise.end_us % line.width_us <> 0
        OR promise.end_us < promise.origin_us
    THEN
        RAISE EXCEPTION 'the origin and end of % are not on its grid or not in order: '
            'give multiples of % us', promise.stream, line.width_us USING ERRCODE = 'MD001';
    END IF;
    SELECT b.bucket_us INTO bad FROM medusa.landed_bucket AS b
    WHERE b.line_id = line.line_id AND b.bucket_us >= promise.end_us
    ORDER BY b.bucket_us DESC LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'stream % has records landed in bucket %, at or after the end %: '
            'end it later', promise.stream, bad, promise.end_us USING ERRCODE = 'MD001';
    END IF;
    SELECT b.bucket_us INTO bad FROM medusa.landed_bucket AS b
    WHERE b.line_id = line.line_id AND b.bucket_us < promise.origin_us
    ORDER BY b.bucket_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'stream % has records landed in bucket %, before the origin %: '
            'begin it earlier', promise.stream, bad, promise.origin_us USING ERRCODE = 'MD001';
    END IF;
    -- S1 is the row's guard. A source that ends where its live rows end has ended with this.
    UPDATE medusa.stream_producer AS p
    SET origin_us = promise.origin_us,
        boundary_us = CASE
            WHEN coalesce(p.boundary_us, promise.origin_us) >= promise.end_us
            THEN 9223372036854775807
            ELSE coalesce(p.boundary_us, promise.origin_us) END,
        promised_us = promise.boundary_us,
        end_us = coalesce(promise.end_us, p.end_us)
    WHERE p.line_id = line.line_id;
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.promise(text, integer, text, integer, medusa.lane, bigint, text, text,
    bigint, bigint, bigint) IS 'A source''s promise: no later record before boundary_us.';
