CREATE OR REPLACE FUNCTION medusa.land(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    args  record;
    line   record;
    number bigint;
    bad    bigint;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (
        fragment text, partition integer, participant text, replica integer, lane medusa.lane,
        epoch bigint, holder text, stream text, query_id text, batch_id bigint, files jsonb,
        bucket_us bigint[], bucket_records bigint[], sum_a numeric[], sum_b numeric[],
        quarantine jsonb, source_state text, retried bigint[]);
    PERFORM medusa.check_lease(args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.holder);
    PERFORM medusa.check_writes(args.fragment, args.stream);
    -- Replicas of a source land one after the other, so that a batch lands once for all of them.
    PERFORM FROM medusa.stream WHERE name = args.stream FOR NO KEY UPDATE;
    SELECT p.line_id, p.boundary_us, p.promised_us, s.width_us INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE (p.stream, p.participant, p.replica) = (args.stream, args.participant, args.replica)
    FOR UPDATE OF p;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(args.stream, args.participant, args.replica);
    END IF;
    -- Both may have been waited for: the lease may have ended, or a newer epoch come (S8).
    PERFORM medusa.check_lease(args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.holder);
    IF EXISTS (SELECT FROM medusa.landed_batch AS b
        WHERE (b.stream, b.query_id, b.batch_id) =
            (args.stream, args.query_id, args.batch_id))
    THEN
        RETURN false;
    END IF;
    SELECT at_us INTO bad FROM unnest(args.bucket_us) AS at_us
    WHERE at_us % line.width_us <> 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'batch % of % counts bucket %, which is not on its grid: '
            'give multiples of % us', args.batch_id, args.stream, bad, line.width_us
            USING ERRCODE = 'MD001';
    END IF;
    SELECT at_us INTO bad FROM unnest(args.bucket_us) AS at_us
    WHERE at_us < line.boundary_us OR at_us + line.width_us <= line.promised_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'batch % of % has records in bucket %, before what its source has promised: '
            'they are late, put them into quarantine', args.batch_id, args.stream, bad
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.landed_batch
        (line_id, stream, query_id, batch_id, file_id, records, source_state)
    VALUES (line.line_id, args.stream, args.query_id, args.batch_id,
        (medusa.record_files(args.stream, args.files))[1], medusa.total(args.bucket_records),
        args.source_state)
    RETURNING batch_no INTO number;
    INSERT INTO medusa.landed_bucket (line_id, bucket_us, batch_no, records, sum_a, sum_b)
    SELECT line.line_id, b.at_us, number, b.n, b.sum_a, b.sum_b
    FROM unnest(args.bucket_us, args.bucket_records, args.sum_a, args.sum_b)
        AS b (at_us, n, sum_a, sum_b);
    PERFORM medusa.write_quarantine(args.quarantine, NULL, number);
    PERFORM medusa.note_retries(args.stream, args.retried, number);
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.land(jsonb) IS
    'Log a landed file once; false if (stream, query id, batch id) had landed before.';
