CREATE OR REPLACE FUNCTION medusa.declare_sink(
    stream text, name text, document text, from_us bigint, through_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF declare_sink.name !~ '^[a-z][a-z0-9_]{0,62}$' THEN
        RAISE EXCEPTION 'a sink is named by small letters, digits and _, beginning with a letter'
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_sink.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deliver one that is', declare_sink.stream
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.sink AS s (stream, name, document, from_us, through_us)
    VALUES (declare_sink.stream, declare_sink.name, declare_sink.document, declare_sink.from_us,
        declare_sink.through_us)
    ON CONFLICT ON CONSTRAINT sink_pkey DO UPDATE
    SET document = excluded.document, from_us = excluded.from_us,
        through_us = excluded.through_us, problem = NULL, declared_at = clock_timestamp();
    PERFORM medusa.place_hold(declare_sink.stream, 'sink:' || declare_sink.name, 'delivery',
        coalesce(declare_sink.through_us, declare_sink.from_us), declare_sink.limit_ms);
END $$;
COMMENT ON FUNCTION medusa.declare_sink(text, text, text, bigint, bigint, bigint) IS
    'Declare the target of a stream and where delivery begins; undelivered buckets are held.';
