CREATE OR REPLACE FUNCTION medusa.declare_qos(stream text, qos jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_qos.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_qos.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, qos)
    VALUES (declare_qos.stream, declare_qos.qos)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET qos = excluded.qos, declared_at = clock_timestamp()
    WHERE p.qos IS DISTINCT FROM excluded.qos;
END $$;
COMMENT ON FUNCTION medusa.declare_qos(text, jsonb) IS
    'Say what a stream is worth by delay and by loss, NULL if nothing of it may be dropped; the '
    'same again is nothing.';
