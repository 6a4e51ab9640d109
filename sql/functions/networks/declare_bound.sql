CREATE OR REPLACE FUNCTION medusa.declare_bound(
    stream text, bound_ms bigint, during_failure text, during_stabilization text,
    failure_ms_max bigint, lag_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_bound.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_bound.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p
        (stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms)
    VALUES (declare_bound.stream, declare_bound.bound_ms, declare_bound.during_failure,
        declare_bound.during_stabilization, declare_bound.failure_ms_max, declare_bound.lag_ms)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET bound_ms = excluded.bound_ms, during_failure = excluded.during_failure,
        during_stabilization = excluded.during_stabilization,
        failure_ms_max = excluded.failure_ms_max, lag_ms = excluded.lag_ms,
        declared_at = clock_timestamp()
    WHERE (p.bound_ms, p.during_failure, p.during_stabilization, p.failure_ms_max, p.lag_ms)
        IS DISTINCT FROM (excluded.bound_ms, excluded.during_failure,
            excluded.during_stabilization, excluded.failure_ms_max, excluded.lag_ms);
END $$;
COMMENT ON FUNCTION medusa.declare_bound(text, bigint, text, text, bigint, bigint) IS
    'Say within which bound a stream answers, NULL for none, and how; the same again is nothing.';
