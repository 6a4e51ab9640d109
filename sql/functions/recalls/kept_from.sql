CREATE OR REPLACE FUNCTION medusa.kept_from(line_id integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.gone_us + ((k.width_us - k.gone_us % k.width_us) % k.width_us)
    FROM (
        SELECT max(o.trimmed_us) FILTER (WHERE o.trimmed_us > o.origin_us) AS gone_us,
            max(s.width_us) AS width_us
        FROM medusa.stream_producer AS p
        CROSS JOIN medusa.home AS h
        JOIN medusa.stream_producer AS o ON o.line_id = p.line_id
            OR p.participant = h.participant AND p.replica >= 0
                AND (o.participant, o.replica) = (p.participant, p.replica)
                AND EXISTS (
                    SELECT FROM medusa.fragment AS f
                    WHERE p.stream = ANY (f.outputs) AND o.stream = ANY (f.outputs)
                        AND f.id NOT LIKE 'import/%')
        JOIN medusa.stream AS s ON s.name = o.stream
        WHERE p.line_id = kept_from.line_id
    ) AS k
$$;
COMMENT ON FUNCTION medusa.kept_from(integer) IS
    'The event time from which a line and its fragment''s other outputs are kept, on the '
    'widest grid; NULL: nothing of them is trimmed.';
