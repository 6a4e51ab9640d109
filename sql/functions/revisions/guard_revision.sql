CREATE OR REPLACE FUNCTION medusa.guard_revision() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line medusa.stream_producer;
    bad  bigint;
BEGIN
    IF NEW.ranges IS NULL THEN
        RETURN NULL;  -- a recall
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = NEW.line_id;
    SELECT min(d.at_us) INTO bad
    FROM (
        SELECT b.at_us
        FROM medusa.segment AS t
        CROSS JOIN LATERAL unnest(t.bucket_us, t.bucket_rows, t.sum_a, t.sum_b) WITH ORDINALITY
            AS b (at_us, n, a, b, i)
        CROSS JOIN LATERAL (VALUES
            (CASE WHEN t.end_version = NEW.version THEN -1 END),
            (CASE WHEN t.begin_version = NEW.version THEN 1 END)) AS side (weight)
        WHERE t.line_id = NEW.line_id AND side.weight IS NOT NULL
            AND (t.end_version = NEW.version OR t.begin_version = NEW.version)
            AND NOT NEW.changed @> b.at_us
        GROUP BY b.at_us, b.n, b.a, b.b, t.stability
        HAVING sum(side.weight) <> 0
    ) AS d;
    IF bad IS NULL THEN
        SELECT lower(h.hole) INTO bad
        FROM (
            SELECT coalesce(range_agg(int8range(t.from_us, t.to_us))
                    FILTER (WHERE t.end_version = NEW.version), '{}')
                - coalesce(range_agg(int8range(t.from_us, t.to_us))
                    FILTER (WHERE t.begin_version = NEW.version), '{}') AS hole
            FROM medusa.segment AS t
            WHERE t.line_id = NEW.line_id
                AND (t.end_version = NEW.version OR t.begin_version = NEW.version)
        ) AS h;
    END IF;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'the revision of % at version % changes bucket %, which it does not name: '
            'name it', line.stream, NEW.version, bad USING ERRCODE = 'MDS13';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.guard_revision() IS
    'S13: a revision changes no bucket outside its ranges, and of these only what it says.';
