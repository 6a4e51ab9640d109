CREATE OR REPLACE FUNCTION medusa_market.join_billed(
    at medusa_market.billing_position, subject text, cut_us bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH joined AS (
        DELETE FROM medusa_market.billed_range AS r
        USING medusa_market.billed_line AS l
        WHERE (l.contract, l.subject) = (at.contract, join_billed.subject)
            AND (r.contract, r.subject, r.period) = (l.contract, l.subject, at.period)
            AND r.from_us < at.from_ms * 1000
                + (l.noted_us - 3600000000 - at.from_ms * 1000) / cut_us * cut_us
            AND r.to_us = r.from_us + 1
        RETURNING r.*
    )
    INSERT INTO medusa_market.billed_range AS k (contract, subject, from_us, to_us, period, rows,
        sum_a, sum_b, gap_us)
    SELECT at.contract, join_billed.subject, j.cell_us, j.cell_us + cut_us, at.period, sum(j.rows),
        sum(j.sum_a), sum(j.sum_b), 0
    FROM (SELECT o.*, at.from_ms * 1000 + (o.from_us - at.from_ms * 1000) / cut_us * cut_us
        AS cell_us FROM joined AS o) AS j
    GROUP BY j.cell_us
$$;
COMMENT ON FUNCTION medusa_market.join_billed(medusa_market.billing_position, text, bigint) IS
    'Keep what was counted of a move more than an hour ago by ranges, and no longer by buckets: until '
    'then the payer may say that it took the fragment back before.';
