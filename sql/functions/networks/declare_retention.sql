CREATE OR REPLACE FUNCTION medusa.declare_retention(stream text, retention_ms bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_retention.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_retention.stream USING ERRCODE = 'MD001';
    END IF;
    IF declare_retention.retention_ms <= 0 THEN
        RAISE EXCEPTION 'stream % cannot be kept for % ms: give a time above 0, or none for good',
            declare_retention.stream, declare_retention.retention_ms USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, retention_ms)
    VALUES (declare_retention.stream, declare_retention.retention_ms)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET retention_ms = excluded.retention_ms, declared_at = clock_timestamp()
    WHERE p.retention_ms IS DISTINCT FROM excluded.retention_ms;
END $$;
COMMENT ON FUNCTION medusa.declare_retention(text, bigint) IS
    'Say how long a stream is kept, NULL for good; the same again is nothing.';
