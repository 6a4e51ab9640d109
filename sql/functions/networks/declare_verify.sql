CREATE OR REPLACE FUNCTION medusa.declare_verify(stream text, verify_count integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_verify.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_verify.stream USING ERRCODE = 'MD001';
    END IF;
    IF (declare_verify.verify_count > 0) IS NOT TRUE THEN
        RAISE EXCEPTION 'stream % cannot be verified by % producers: give 1 or more',
            declare_verify.stream, declare_verify.verify_count USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, verify_count)
    VALUES (declare_verify.stream, declare_verify.verify_count)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET verify_count = excluded.verify_count, declared_at = clock_timestamp()
    WHERE p.verify_count <> excluded.verify_count;
END $$;
COMMENT ON FUNCTION medusa.declare_verify(text, integer) IS
    'Say how many producers must agree before a row is final here; the same again is nothing.';
