CREATE OR REPLACE FUNCTION medusa_market.billed_changes(
    at medusa_market.billing_position, line_id integer, to_us bigint, cut_us bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    here   text := medusa_market.here();
    line   medusa.stream_producer;
    stable bigint;
    noted  bigint := coalesce(at.noted_us, at.from_ms * 1000);
    upto   bigint;
BEGIN
    -- All of it is read in the snapshot of the statement that calls this function.
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = billed_changes.line_id;
    stable := medusa_market.stable_us(line);
    IF stable IS NULL THEN
        RETURN NULL;
    END IF;
    upto := greatest(noted, least(stable, to_us));
    RETURN jsonb_build_object('version', line.last_version, 'stable_us', stable, 'noted_us', upto,
        'ranges', (
            WITH changed AS (
                -- 1 What has become final since.
                SELECT at.from_ms * 1000 + (u.bucket_us - at.from_ms * 1000) / cut_us * cut_us
                        AS from_us, cut_us AS cut, to_us AS ends_us, at.period AS period,
                    u.rows, u.a, u.b
                FROM medusa.segment AS s
                CROSS JOIN LATERAL unnest(s.bucket_us, s.bucket_rows, s.sum_a, s.sum_b)
                    AS u (bucket_us, rows, a, b)
                WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'stable'
                    AND s.to_us > noted AND s.from_us < upto
                    AND u.bucket_us >= noted AND u.bucket_us < upto
                UNION ALL
                -- 2 What was changed since of buckets that are counted, by a revision or a recall.
                SELECT g.from_us + (u.bucket_us - g.from_us) / g.cut * g.cut, g.cut, g.ends_us,
                    g.period, r.sign * u.rows, r.sign * u.a, r.sign * u.b
                FROM (
                    SELECT 1 AS sign, s.segment_id FROM medusa.segment AS s
                    WHERE s.line_id = line.line_id AND s.begin_version > at.noted_version
                        AND s.end_version IS NULL AND s.stability = 'stable' AND s.from_us < noted
                    UNION ALL
                    SELECT -1, s.segment_id FROM medusa.segment AS s
                    WHERE s.line_id = line.line_id AND s.end_version > at.noted_version
                        AND s.begin_version <= at.noted_version AND s.stability = 'stable'
                        AND s.from_us < noted
                ) AS r
                JOIN medusa.segment AS s ON s.segment_id = r.segment_id
                CROSS JOIN LATERAL unnest(s.bucket_us, s.bucket_rows, s.sum_a, s.sum_b)
                    AS u (bucket_us, rows, a, b)
                JOIN (
                    SELECT b.from_ms * 1000 AS from_us, b.to_ms * 1000 AS ends_us,
                        b.cut_us AS cut, b.period
                    FROM medusa_market.bill AS b
                    WHERE b.contract = at.contract AND b.made_by = here
                    UNION ALL
                    SELECT at.from_ms * 1000, to_us, cut_us, at.period
                ) AS g ON u.bucket_us >= g.from_us AND u.bucket_us < g.ends_us
                WHERE u.bucket_us < noted AND at.line_id = line.line_id
            )
            SELECT coalesce(jsonb_agg(jsonb_build_object('from_us', n.from_us,
                'to_us', least(n.from_us + n.cut, n.ends_us), 'period', n.period,
                'rows', n.rows, 'sum_a', n.a, 'sum_b', n.b)), '[]')
            FROM (
                SELECT c.from_us, c.cut, c.ends_us, c.period, sum(c.rows) AS rows, sum(c.a) AS a,
                    sum(c.b) AS b
                FROM changed AS c GROUP BY c.from_us, c.cut, c.ends_us, c.period
            ) AS n WHERE (n.rows, n.a, n.b) <> (0, 0, 0)));
END $$;
COMMENT ON FUNCTION medusa_market.billed_changes(medusa_market.billing_position, integer, bigint,
    bigint) IS
    'How the final rows of a line differ from what is counted, by ranges, and up to where they are '
    'counted with that; NULL: the line has not begun.';
