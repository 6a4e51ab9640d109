CREATE OR REPLACE FUNCTION medusa_market.billed_changes(
    at medusa_market.billing_position, counted medusa_market.billed_line, to_us bigint,
    cut_us bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    here   text := medusa_market.here();
    line   medusa.stream_producer;
    stable bigint;
    noted  bigint := counted.noted_us;
    upto   bigint;
BEGIN
    -- All of it is read in the snapshot of the statement that calls this function.
    SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = counted.line_id;
    stable := medusa_market.stable_us(line);
    IF stable IS NULL THEN
        RETURN NULL;
    END IF;
    upto := greatest(noted, least(stable, to_us));
    RETURN jsonb_build_object('version', line.last_version, 'stable_us', stable, 'noted_us', upto,
        'ranges', (
            WITH piece AS (
                -- 1 What has become final since.
                SELECT 1 AS sign, s.segment_id, noted AS from_us, upto AS to_us
                FROM medusa.segment AS s
                WHERE s.line_id = line.line_id AND s.end_version IS NULL
                    AND s.stability <> 'tentative' AND s.to_us > noted AND s.from_us < upto
                UNION ALL
                -- 2 What was changed since of buckets that are counted, by a revision or a recall;
                -- what a move has computed is paid for as it was when it became final.
                SELECT 1, s.segment_id, -9223372036854775807, noted FROM medusa.segment AS s
                WHERE s.line_id = line.line_id AND s.begin_version > counted.noted_version
                    AND s.end_version IS NULL AND s.stability <> 'tentative' AND s.from_us < noted
                    AND counted.subject = ''
                UNION ALL
                SELECT -1, s.segment_id, -9223372036854775807, noted FROM medusa.segment AS s
                WHERE s.line_id = line.line_id AND s.end_version > counted.noted_version
                    AND s.begin_version <= counted.noted_version AND s.stability <> 'tentative'
                    AND s.from_us < noted AND counted.subject = ''
            ), period AS (
                SELECT b.from_ms * 1000 AS from_us, b.to_ms * 1000 AS ends_us, b.cut_us AS cut,
                    b.period
                FROM medusa_market.bill AS b
                WHERE b.contract = at.contract AND b.made_by = here
                UNION ALL
                SELECT at.from_ms * 1000, to_us, cut_us, at.period
            ), part AS (
                SELECT p.sign, u.bucket_us AS from_us, u.rows, u.a, u.b, 0 AS gap_us
                FROM piece AS p JOIN medusa.segment AS s USING (segment_id)
                CROSS JOIN LATERAL unnest(s.bucket_us, s.bucket_rows, s.sum_a, s.sum_b)
                    AS u (bucket_us, rows, a, b)
                WHERE u.bucket_us >= p.from_us AND u.bucket_us < p.to_us
                UNION ALL
                SELECT p.sign, w.from_us, 0, 0, 0, least(s.to_us, p.to_us, w.to_us)
                    - greatest(s.from_us, p.from_us, w.from_us)
                FROM piece AS p JOIN medusa.segment AS s USING (segment_id)
                JOIN period AS g ON s.from_us < g.ends_us AND s.to_us > g.from_us
                CROSS JOIN LATERAL (
                    SELECT c.from_us, least(c.from_us + g.cut, g.ends_us) AS to_us
                    FROM generate_series(g.from_us + greatest(s.from_us - g.from_us, 0)
                        / g.cut * g.cut, least(s.to_us, g.ends_us) - 1, g.cut) AS c (from_us)
                ) AS w
                WHERE s.stability = 'gap' AND counted.subject = ''
                    AND least(s.to_us, p.to_us, w.to_us)
                    > greatest(s.from_us, p.from_us, w.from_us)
            )
            SELECT coalesce(jsonb_agg(jsonb_build_object('from_us', n.from_us,
                'to_us', least(n.from_us + n.cut, n.ends_us), 'period', n.period,
                'rows', n.rows, 'sum_a', n.a, 'sum_b', n.b, 'gap_us', n.gap_us)), '[]')
            FROM (
                SELECT g.from_us + (c.from_us - g.from_us) / g.cut * g.cut AS from_us, g.cut,
                    g.ends_us, g.period, sum(c.sign * c.rows) AS rows, sum(c.sign * c.a) AS a,
                    sum(c.sign * c.b) AS b, sum(c.sign * c.gap_us) AS gap_us
                FROM part AS c
                JOIN period AS g ON c.from_us >= g.from_us AND c.from_us < g.ends_us
                GROUP BY 1, g.cut, g.ends_us, g.period
            ) AS n WHERE (n.rows, n.a, n.b, n.gap_us) <> (0, 0, 0, 0)));
END $$;
COMMENT ON FUNCTION medusa_market.billed_changes(medusa_market.billing_position,
    medusa_market.billed_line, bigint, bigint) IS
    'How the final rows of a line differ from what is counted, by ranges, and up to where they are '
    'counted with that; NULL: the line has not begun.';
