CREATE OR REPLACE FUNCTION medusa.acknowledge(
    stream text, reader text, through_us bigint, limit_ms bigint, path_ms bigint,
    replica integer DEFAULT 0, version bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    last  bigint;
    until bigint := acknowledge.through_us;
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
    -- A copy of before a recall or a revision is not complete behind it.
    IF acknowledge.version IS NOT NULL THEN
        SELECT p.last_version, least(acknowledge.through_us, (
            SELECT min(r.from_us) FROM medusa.recall AS r
            WHERE r.line_id = p.line_id AND r.version > acknowledge.version))
        INTO last, until
        FROM medusa.stream_producer AS p JOIN medusa.home AS h ON h.participant = p.participant
        WHERE (p.stream, p.replica) = (acknowledge.stream, acknowledge.replica);
        IF (acknowledge.version BETWEEN 0 AND last) IS NOT TRUE THEN
            RAISE EXCEPTION 'replica % of stream % has no version % yet: acknowledge one that it has',
                acknowledge.replica, acknowledge.stream, acknowledge.version
                USING ERRCODE = 'MD001';
        END IF;
    END IF;
    IF (until <= (SELECT max(p.boundary_us) FROM medusa.stream_producer AS p
        WHERE p.stream = acknowledge.stream)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'stream % does not reach to % yet: acknowledge what there is',
            acknowledge.stream, until USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms, path_ms, versions)
    VALUES (acknowledge.stream, acknowledge.reader, 'import', until, acknowledge.limit_ms,
        acknowledge.path_ms, CASE WHEN acknowledge.version IS NULL THEN '{}'
            ELSE jsonb_build_object(acknowledge.replica, acknowledge.version) END)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = greatest(h.from_us, excluded.from_us), limit_ms = excluded.limit_ms,
        path_ms = excluded.path_ms, placed_at = clock_timestamp(),
        versions = CASE WHEN acknowledge.version IS NULL
                OR acknowledge.version < (h.versions->>acknowledge.replica::text)::bigint
            THEN h.versions ELSE h.versions || excluded.versions END;
END $$;
COMMENT ON FUNCTION medusa.acknowledge(text, text, bigint, bigint, bigint, integer, bigint) IS
    'Buckets before through_us are safe with the reader, as they are in a version of the line of a '
    'replica; its hold moves up.';
