CREATE OR REPLACE FUNCTION medusa.shared_line(stream text) RETURNS medusa.stream_producer
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.* FROM medusa.stream_producer AS p, medusa.home AS h
    WHERE p.stream = shared_line.stream
    -- The order of reading_order: the import, the own line, the first by name.
    ORDER BY p.participant <> h.participant OR p.replica <> -1, p.participant <> h.participant,
        p.participant, p.replica
    LIMIT 1
$$;
COMMENT ON FUNCTION medusa.shared_line(text) IS
    'The line that this home reads of a stream, which is the one that medusa read shows.';
