CREATE OR REPLACE FUNCTION medusa.commit_choice(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    args  record;
    line   medusa.stream_producer;
    one    record;
    answer jsonb;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (
        fragment text, partition integer, participant text, replica integer, lane medusa.lane,
        epoch bigint, holder text, stream text, commits jsonb, divergences jsonb, compared jsonb,
        end_us bigint);

    -- 1 Lock the lease (S8), which is of this stream's import.
    PERFORM medusa.check_lease(args.fragment, args.partition, args.participant, args.replica,
        args.lane, args.epoch, args.holder);
    IF (args.fragment = 'import/' || args.stream AND args.replica = -1) IS NOT TRUE THEN
        RAISE EXCEPTION 'fragment % does not choose among the producers of %: take the lease of '
            'import/%', args.fragment, args.stream, args.stream USING ERRCODE = 'MD001';
    END IF;

    -- 2 Commit the rows.
    FOR one IN
        SELECT w.value AS request FROM jsonb_array_elements(args.commits) WITH ORDINALITY AS w
        ORDER BY w.ordinality
    LOOP
        IF (one.request->>'fragment', one.request->>'cause')
            IS DISTINCT FROM (args.fragment, 'import')
        THEN
            RAISE EXCEPTION 'a choice of % holds a commit of %: commit that by itself',
                args.fragment, one.request->>'fragment' USING ERRCODE = 'MD001';
        END IF;
        answer := medusa.commit_step(one.request);
    END LOOP;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) = (args.stream, args.participant, -1)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(args.stream, args.participant, -1);
    END IF;

    -- 3 Note divergences.
    INSERT INTO medusa.divergence (stream, bucket_us, plan, participant, replica, version, rows,
        sum_a, sum_b, other_participant, other_replica, other_version, other_rows, other_sum_a,
        other_sum_b)
    SELECT args.stream, d.* FROM jsonb_to_recordset(args.divergences) AS d (
        bucket_us bigint, plan text, participant text, replica integer, version bigint,
        rows bigint, sum_a numeric, sum_b numeric, other_participant text, other_replica integer,
        other_version bigint, other_rows bigint, other_sum_a numeric, other_sum_b numeric)
    ON CONFLICT DO NOTHING;

    -- 4 Move how far lines have been compared; what was recalled meanwhile has not been.
    UPDATE medusa.stream_producer AS p
    SET compared_us = least(greatest(p.compared_us, c.compared_us),
        CASE WHEN p.generation > 1 THEN p.boundary_us END)
    FROM jsonb_to_recordset(args.compared) AS c
        (participant text, replica integer, compared_us bigint)
    WHERE (p.stream, p.participant, p.replica) = (args.stream, c.participant, c.replica);

    -- 5 End the line (S1).
    IF args.end_us IS NOT NULL AND line.end_us IS NULL THEN
        IF line.boundary_us IS DISTINCT FROM args.end_us THEN
            RAISE EXCEPTION 'stream % cannot end at % here, it is at %: read again and decide '
                'again', args.stream, args.end_us, line.boundary_us USING ERRCODE = 'MD002';
        END IF;
        UPDATE medusa.stream_producer AS p SET end_us = args.end_us, boundary_us = forever
        WHERE p.line_id = line.line_id;
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN answer;
END $$;
COMMENT ON FUNCTION medusa.commit_choice(jsonb) IS
    'Record the choice among a stream''s producers, with its findings: the numbers are those '
    'of the interface.';
