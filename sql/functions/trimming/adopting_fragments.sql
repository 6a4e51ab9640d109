CREATE OR REPLACE FUNCTION medusa.adopting_fragments(stream text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.id FROM medusa.fragment AS f
    CROSS JOIN medusa.home AS h
    CROSS JOIN LATERAL (
        SELECT o.participant, o.replica, o.from_us FROM medusa.fragment_owner AS o
        WHERE o.fragment = f.id ORDER BY o.epoch DESC LIMIT 1
    ) AS o
    WHERE adopting_fragments.stream = ANY (f.outputs) AND f.stopped_at IS NULL
        AND (o.participant <> h.participant OR EXISTS (
            -- The step in which the last rows of the provider are adopted may be under way.
            SELECT FROM medusa.stream_producer AS p
            WHERE (p.stream, p.participant, p.replica) =
                    (adopting_fragments.stream, o.participant, o.replica)
                AND (p.boundary_us IS NULL OR p.boundary_us <= o.from_us)))
$$;
COMMENT ON FUNCTION medusa.adopting_fragments(text) IS
    'The fragments of this home that write a stream and may commit what a provider computes of it.';
