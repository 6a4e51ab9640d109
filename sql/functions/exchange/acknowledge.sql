CREATE OR REPLACE FUNCTION medusa.acknowledge(
    stream text, reader text, through_us bigint, limit_ms bigint, path_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF acknowledge.reader !~ '^[a-z][a-z0-9_]{0,62}$' THEN
        RAISE EXCEPTION 'a reader is named like a participant, by small letters, digits and _'
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = acknowledge.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: acknowledge one that is',
            acknowledge.stream USING ERRCODE = 'MD001';
    END IF;
    -- A hold never moves back and always has a limit, so neither may be beyond reason.
    IF (acknowledge.limit_ms BETWEEN 1 AND 31 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION 'a reader holds for 1 ms to 31 days, not for % ms', acknowledge.limit_ms
            USING ERRCODE = 'MD001';
    END IF;
    IF (acknowledge.path_ms BETWEEN 0 AND 31 * 86400000::bigint) IS NOT TRUE THEN
        RAISE EXCEPTION 'a path costs 0 ms to 31 days, not % ms', acknowledge.path_ms
            USING ERRCODE = 'MD001';
    END IF;
    IF (acknowledge.through_us <= (SELECT max(p.boundary_us) FROM medusa.stream_producer AS p
        WHERE p.stream = acknowledge.stream)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'stream % does not reach to % yet: acknowledge what there is',
            acknowledge.stream, acknowledge.through_us USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms, path_ms)
    VALUES (acknowledge.stream, acknowledge.reader, 'import', acknowledge.through_us,
        acknowledge.limit_ms, acknowledge.path_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = greatest(h.from_us, excluded.from_us), limit_ms = excluded.limit_ms,
        path_ms = excluded.path_ms, placed_at = clock_timestamp();
END $$;
COMMENT ON FUNCTION medusa.acknowledge(text, text, bigint, bigint, bigint) IS
    'Buckets before through_us are safe with the reader; its hold moves up.';
