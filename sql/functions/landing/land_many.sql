CREATE OR REPLACE FUNCTION medusa.land_many(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    args  record;
    bad    record;
    expected bigint;
    landed bigint;
    rows   numeric;
    file   bigint;
BEGIN
    SELECT * INTO args
    FROM jsonb_to_record(request) AS w (batches jsonb, file jsonb, file_of text);
    PERFORM medusa.lock_leases(args.batches);
    PERFORM medusa.check_leases(args.batches);
    PERFORM medusa.lock_lines(args.batches);

    -- All or none.
    SELECT count(*), count(b.batch_no) INTO expected, landed
    FROM jsonb_to_recordset(args.batches) AS w (stream text, query_id text, batch_id bigint)
    LEFT JOIN medusa.landed_batch AS b
        ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id);
    IF landed = expected THEN
        RETURN false;
    END IF;
    IF landed > 0 THEN
        SELECT w.* INTO bad
        FROM jsonb_to_recordset(args.batches) AS w (stream text, query_id text, batch_id bigint)
        JOIN medusa.landed_batch AS b
            ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id)
        ORDER BY w.stream LIMIT 1;
        RAISE EXCEPTION 'batch % of % landed without the others that come with it: give it '
            'another number', bad.batch_id, bad.stream USING ERRCODE = 'MD001';
    END IF;
    -- What land would refuse it does refuse, in its words.
    SELECT w.value AS request INTO bad
    FROM jsonb_array_elements(args.batches) AS w,
        jsonb_to_record(w.value) AS r
            (stream text, participant text, replica integer, bucket_us bigint[])
    JOIN medusa.stream_producer AS p
        ON (p.stream, p.participant, p.replica) = (r.stream, r.participant, r.replica)
    JOIN medusa.stream AS s ON s.name = r.stream
    WHERE EXISTS (SELECT FROM unnest(r.bucket_us) AS at_us
        WHERE at_us % s.width_us <> 0 OR at_us < p.boundary_us
            OR at_us + s.width_us <= p.promised_us) LIMIT 1;
    IF FOUND THEN
        PERFORM medusa.land(bad.request);
    END IF;

    SELECT sum(n) INTO rows
    FROM jsonb_to_recordset(args.batches) AS w (bucket_records bigint[]),
        unnest(w.bucket_records) AS n;
    IF rows IS DISTINCT FROM (args.file->>'rows')::numeric THEN
        RAISE EXCEPTION 'batches with % records would land in a file of % rows: count again',
            coalesce(rows, 0), coalesce(args.file->>'rows', 'no') USING ERRCODE = 'MD001';
    END IF;
    IF args.file IS NOT NULL THEN
        file := (medusa.record_files(args.file_of, jsonb_build_array(args.file)))[1];
    END IF;
    INSERT INTO medusa.landed_batch
        (line_id, stream, query_id, batch_id, file_id, records, source_state)
    SELECT p.line_id, w.stream, w.query_id, w.batch_id,
        CASE WHEN cardinality(w.bucket_us) > 0 THEN file END, medusa.total(w.bucket_records),
        w.source_state
    FROM jsonb_to_recordset(args.batches) AS w (stream text, participant text, replica integer,
        query_id text, batch_id bigint, bucket_us bigint[], bucket_records bigint[],
        source_state text)
    JOIN medusa.stream_producer AS p
        ON (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica)
    ORDER BY w.stream;
    INSERT INTO medusa.landed_bucket (line_id, bucket_us, batch_no, records)
    SELECT b.line_id, k.at_us, b.batch_no, k.n
    FROM jsonb_to_recordset(args.batches) AS w (stream text, query_id text, batch_id bigint,
        bucket_us bigint[], bucket_records bigint[])
    JOIN medusa.landed_batch AS b
        ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id),
        unnest(w.bucket_us, w.bucket_records) AS k (at_us, n);
    FOR bad IN
        SELECT w.stream, w.quarantine, w.retried, b.batch_no
        FROM jsonb_to_recordset(args.batches) AS w (stream text, query_id text, batch_id bigint,
            quarantine jsonb, retried bigint[])
        JOIN medusa.landed_batch AS b
            ON (b.stream, b.query_id, b.batch_id) = (w.stream, w.query_id, w.batch_id)
        WHERE jsonb_array_length(w.quarantine) > 0 OR cardinality(w.retried) > 0
        ORDER BY w.stream
    LOOP
        PERFORM medusa.write_quarantine(bad.quarantine, NULL, bad.batch_no);
        PERFORM medusa.note_retries(bad.stream, bad.retried, bad.batch_no);
    END LOOP;
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.land_many(jsonb) IS
    'Log one file with the records of several streams once, for all of them or none.';
