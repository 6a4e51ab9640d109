CREATE OR REPLACE FUNCTION medusa.read_line(stream text) RETURNS medusa.stream_producer
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p FROM medusa.stream_producer AS p
    LEFT JOIN medusa.home AS h ON h.participant = p.participant
    WHERE p.stream = read_line.stream
    ORDER BY (h.participant IS NOT NULL AND p.replica = -1) DESC, h.participant IS NOT NULL DESC,
        p.participant, p.replica
    LIMIT 1
$$;
COMMENT ON FUNCTION medusa.read_line(text) IS
    'The line that this home reads of a stream: its choice among the producers, else its own, else '
    'the first by name.';
