CREATE OR REPLACE FUNCTION medusa.streams_behind(stream text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE behind (stream) AS (
        SELECT streams_behind.stream
        UNION
        SELECT o.name
        FROM behind AS b
        JOIN medusa.fragment AS f ON b.stream = ANY (f.inputs)
        CROSS JOIN LATERAL unnest(f.outputs) AS o (name)
    )
    SELECT b.stream FROM behind AS b
$$;
COMMENT ON FUNCTION medusa.streams_behind(text) IS
    'A stream and all that is computed from it in this home, over the wiring.';
