CREATE OR REPLACE FUNCTION medusa.guard_lineage() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.recall) THEN
        RETURN NULL;
    END IF;
    SELECT n.input, r.from_us INTO bad
    FROM fresh AS n
    JOIN medusa.stream_producer AS p
        ON (p.stream, p.participant, p.replica) = (n.input, n.participant, n.replica)
    JOIN medusa.recall AS r
        ON r.line_id = p.line_id AND r.version > n.read_version
            AND (r.ranges IS NULL AND r.from_us < n.to_us
                OR r.changed && int8range(n.from_us, n.to_us))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% was recalled from % on since it was read: read again and decide again',
            bad.input, bad.from_us USING ERRCODE = 'MD002';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.guard_lineage() IS
    'Refuses results that are computed from recalled or revised rows: a step that is running is refused.';
