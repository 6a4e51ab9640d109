CREATE OR REPLACE FUNCTION medusa_market.apply_billed(
    at medusa_market.billing_position, line medusa_market.billed_line, changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa_market.billed_range AS r
    SET rows = r.rows + n.rows, sum_a = r.sum_a + n.sum_a, sum_b = r.sum_b + n.sum_b,
        gap_us = r.gap_us + n.gap_us
    FROM jsonb_to_recordset(changes->'ranges') AS n (from_us bigint, rows bigint, sum_a numeric,
        sum_b numeric, gap_us bigint)
    WHERE (r.contract, r.subject, r.from_us) = (at.contract, line.subject, n.from_us);
    INSERT INTO medusa_market.billed_range (contract, subject, from_us, to_us, period, rows, sum_a,
        sum_b, gap_us)
    SELECT at.contract, line.subject, n.from_us, n.to_us, n.period, n.rows, n.sum_a, n.sum_b,
        n.gap_us
    FROM jsonb_to_recordset(changes->'ranges') AS n (from_us bigint, to_us bigint, period bigint,
        rows bigint, sum_a numeric, sum_b numeric, gap_us bigint)
    WHERE NOT EXISTS (SELECT FROM medusa_market.billed_range AS r
        WHERE (r.contract, r.subject, r.from_us) = (at.contract, line.subject, n.from_us));
    INSERT INTO medusa_market.billed_line AS l
    VALUES (at.contract, line.subject, line.line_id, (changes->>'noted_us')::bigint,
        (changes->>'version')::bigint)
    ON CONFLICT ON CONSTRAINT billed_line_pkey DO UPDATE SET line_id = excluded.line_id,
        noted_us = excluded.noted_us, noted_version = excluded.noted_version
    WHERE (l.line_id, l.noted_us, l.noted_version) IS DISTINCT FROM
        (excluded.line_id, excluded.noted_us, excluded.noted_version);
    IF FOUND THEN
        UPDATE medusa_market.billing_position AS b SET counts = b.counts + 1
        WHERE b.contract = at.contract;
        PERFORM medusa_market.hold_billed(at.contract, line, changes);
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.apply_billed(medusa_market.billing_position,
    medusa_market.billed_line, jsonb) IS
    'Add to what is counted how it differs, and hold what is not counted yet.';
