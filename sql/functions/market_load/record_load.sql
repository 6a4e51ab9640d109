CREATE OR REPLACE FUNCTION medusa_market.record_load(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    args  record;
    number bigint;
    parted numeric;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (driver text, number bigint, lane text,
        length_ms bigint, ended_ago_ms bigint, total_us bigint, parts jsonb);
    SELECT coalesce(sum(p.cpu_us), 0) INTO parted
    FROM jsonb_to_recordset(args.parts) AS p (cpu_us bigint);
    IF parted IS DISTINCT FROM args.total_us OR coalesce(args.ended_ago_ms, -1) < 0
        OR args.ended_ago_ms > 86400000
    THEN
        RAISE EXCEPTION 'a sample of load is refused: its parts are % us of % us, and it ended % ms '
            'ago: let parts add up, and send it within a day', parted, args.total_us,
            args.ended_ago_ms USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.load_sample AS s (driver, number, lane, length_ms, total_us, ended_at)
    VALUES (args.driver, args.number, args.lane::medusa.lane, args.length_ms, args.total_us,
        clock_timestamp() - args.ended_ago_ms * interval '1 millisecond')
    ON CONFLICT ON CONSTRAINT load_sample_driver_number_key DO NOTHING
    RETURNING s.sample_id INTO number;
    IF number IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO medusa_market.load_part (sample_id, kind, fragment, partition, cause, cpu_us)
    SELECT number, p.kind::medusa_market.load_kind, p.fragment, p.partition, p.cause::medusa.cause,
        p.cpu_us
    FROM jsonb_to_recordset(args.parts) AS p (kind text, fragment text, partition integer,
        cause text, cpu_us bigint);
    PERFORM medusa_market.trim_loads(100);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.record_load(jsonb) IS
    'Record the CPU time of a driver in a period, and remove old samples; false: it was '
    'recorded already.';
