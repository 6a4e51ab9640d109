CREATE OR REPLACE FUNCTION medusa.move_cursor(stream text, name text, version bigint,
    limit_ms bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    at   medusa.cursor;
    line medusa.stream_producer;
    seen medusa.line_version;
BEGIN
    SELECT c.* INTO at FROM medusa.cursor AS c
    WHERE (c.stream, c.name) = (move_cursor.stream, move_cursor.name) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream % has no cursor %: place it by asking for its changes',
            move_cursor.stream, move_cursor.name USING ERRCODE = 'MD001';
    END IF;
    IF at.incarnation <> (SELECT h.incarnation FROM medusa.home AS h) OR at.chain <> (
        SELECT v.chain FROM medusa.line_version AS v
        WHERE (v.line_id, v.version) = (at.line_id, at.version))
    THEN
        RAISE EXCEPTION 'cursor % of % is at a version that this home no longer has: drop it and '
            'start again, with an empty target', at.name, at.stream USING ERRCODE = 'MD006';
    END IF;
    IF (move_cursor.version >= at.version) IS NOT TRUE THEN
        RAISE EXCEPTION 'cursor % of % is at version %: it cannot go back to %', at.name,
            at.stream, at.version, move_cursor.version USING ERRCODE = 'MD001';
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = at.line_id;
    IF move_cursor.version > line.last_version THEN
        RAISE EXCEPTION 'version % of % is not there yet, the newest is %: move the cursor to one '
            'that was read', move_cursor.version, at.stream, line.last_version
            USING ERRCODE = 'MD001';
    END IF;
    SELECT v.* INTO seen FROM medusa.line_version AS v
    WHERE (v.line_id, v.version) = (at.line_id, move_cursor.version);
    -- Versions from before chains were kept have no row; a partner's came several at once.
    IF NOT FOUND AND move_cursor.version > at.version AND EXISTS (
        SELECT FROM medusa.line_version AS v
        WHERE v.line_id = at.line_id AND v.version < move_cursor.version)
    THEN
        RAISE EXCEPTION 'version % of % was never read here: move the cursor to the version of an '
            'answer', move_cursor.version, at.stream USING ERRCODE = 'MD001';
    END IF;
    UPDATE medusa.cursor AS c
    SET version = move_cursor.version, chain = seen.chain, moved_at = clock_timestamp()
    WHERE (c.stream, c.name) = (at.stream, at.name);
    PERFORM medusa.place_hold(at.stream, 'cursor:' || at.name, 'changes',
        greatest(at.from_us, least(seen.stable_us, (
            SELECT min(r.from_us) FROM medusa.recall AS r
            WHERE r.line_id = at.line_id AND r.version > move_cursor.version))),
        move_cursor.limit_ms);
END $$;
COMMENT ON FUNCTION medusa.move_cursor(text, text, bigint, bigint) IS
    'The changes up to a version are applied: hold from where the stable prefix ended at it.';
