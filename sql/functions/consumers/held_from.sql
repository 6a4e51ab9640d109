CREATE OR REPLACE FUNCTION medusa.held_from(held medusa.hold, line medusa.stream_producer)
RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(held.from_us, min(r.from_us))
    FROM medusa.recall AS r
    CROSS JOIN medusa.home AS h
    WHERE r.line_id = held_from.line.line_id
        AND r.version > (held.versions->>CASE held_from.line.participant
            WHEN h.participant THEN held_from.line.replica::text
            ELSE held_from.line.participant || '/' || held_from.line.replica END)::bigint
$$;
COMMENT ON FUNCTION medusa.held_from(medusa.hold, medusa.stream_producer) IS
    'From where on a hold keeps a line: what was recalled or revised behind the version that its '
    'reader has acknowledged is still to be read.';
