CREATE OR REPLACE FUNCTION medusa.make_view(
    name text, stream text, records bigint, duration_us bigint, from_us bigint, to_us bigint,
    limit_ms bigint, grows boolean
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    line     medusa.stream_producer;
    begin_us bigint := make_view.from_us;
    kept_us  bigint;
BEGIN
    IF (make_view.name ~ '^[a-z][a-z0-9_]{0,62}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'a view is named by small letters, digits and _, beginning with a letter'
            USING ERRCODE = 'MD001';
    END IF;
    IF num_nonnulls(make_view.records, make_view.duration_us, make_view.from_us) <> 1
        OR make_view.records < 1 OR make_view.duration_us < 1
        OR (make_view.to_us IS NOT NULL AND (make_view.to_us > make_view.from_us) IS NOT TRUE)
    THEN
        RAISE EXCEPTION 'a view is of the last records, the last duration or a range of event '
            'time: give one of them, above 0' USING ERRCODE = 'MD001';
    END IF;
    IF (make_view.limit_ms BETWEEN 1 AND 366 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION 'a view is kept for 1 ms to 366 days, not for % ms', make_view.limit_ms
            USING ERRCODE = 'MD001';
    END IF;
    -- The hold waits for a trim that is being made; what is left then stays.
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = make_view.stream FOR SHARE;
    line := medusa.read_line(make_view.stream);
    IF line.line_id IS NULL THEN
        RAISE EXCEPTION 'nobody writes stream % here: make a view of a stream that is deployed',
            make_view.stream USING ERRCODE = 'MD001';
    END IF;
    IF begin_us IS NULL THEN
        begin_us := coalesce(medusa.view_begins(make_view.stream, make_view.records,
            make_view.duration_us), -9223372036854775808);
    END IF;
    IF line.trimmed_us > line.origin_us THEN
        kept_us := line.trimmed_us;
    END IF;
    IF begin_us < kept_us AND NOT make_view.grows THEN
        RAISE EXCEPTION 'stream % is trimmed before %, and view % would begin before that: make one '
            'that begins there or later, or one that grows', line.stream,
            to_char(to_timestamp(kept_us / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            make_view.name USING ERRCODE = 'MD007';
    END IF;
    BEGIN
        INSERT INTO medusa.stream_view (name, stream, records, duration_us, from_us, to_us)
        VALUES (make_view.name, line.stream, make_view.records, make_view.duration_us,
            make_view.from_us, make_view.to_us);
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION 'there is a view %: remove it, or choose another name', make_view.name
            USING ERRCODE = 'MD001';
    END;
    PERFORM medusa.place_hold(line.stream, 'view:' || make_view.name, 'view',
        greatest(begin_us, kept_us), make_view.limit_ms);
END $$;
COMMENT ON FUNCTION medusa.make_view(text, text, bigint, bigint, bigint, bigint, bigint, boolean) IS
    'Keep a named part of a stream; one that grows begins with what is kept, if that is less.';
