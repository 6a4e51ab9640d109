CREATE OR REPLACE FUNCTION medusa.place_cursor(
    stream text, name text, participant text, replica integer, from_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    line medusa.stream_producer;
BEGIN
    IF (place_cursor.name ~ '^[a-z][a-z0-9_]{0,62}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'a cursor is named by small letters, digits and _, beginning with a letter'
            USING ERRCODE = 'MD001';
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (place_cursor.stream, place_cursor.participant, place_cursor.replica);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nobody writes stream % here as %/%: read a stream that is deployed',
            place_cursor.stream, place_cursor.participant, place_cursor.replica
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.cursor AS c (stream, name, line_id, incarnation, from_us)
    SELECT line.stream, place_cursor.name, line.line_id, h.incarnation, place_cursor.from_us
    FROM medusa.home AS h
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cursor % of % exists already: use it, or drop it first',
            place_cursor.name, place_cursor.stream USING ERRCODE = 'MD002';
    END IF;
    -- The hold waits for a trim that is being made; what is left then stays.
    PERFORM medusa.place_hold(line.stream, 'cursor:' || place_cursor.name, 'changes',
        place_cursor.from_us, place_cursor.limit_ms);
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
    IF line.trimmed_us > line.origin_us AND place_cursor.from_us < line.trimmed_us THEN
        RAISE EXCEPTION 'stream % is trimmed before % us: begin there, or at a later bucket',
            line.stream, line.trimmed_us USING ERRCODE = 'MD007';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.place_cursor(text, text, text, integer, bigint, bigint) IS
    'Place a cursor before all changes of the buckets from from_us on; the buckets that it '
    'needs are held.';
