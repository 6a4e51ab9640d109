CREATE OR REPLACE FUNCTION medusa_market.apply_billed(
    at medusa_market.billing_position, line integer, changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa_market.billed_range AS r
    SET rows = r.rows + n.rows, sum_a = r.sum_a + n.sum_a, sum_b = r.sum_b + n.sum_b
    FROM jsonb_to_recordset(changes->'ranges') AS n (from_us bigint, rows bigint, sum_a numeric,
        sum_b numeric)
    WHERE r.contract = at.contract AND r.from_us = n.from_us;
    INSERT INTO medusa_market.billed_range (contract, from_us, to_us, period, rows, sum_a, sum_b)
    SELECT at.contract, n.from_us, n.to_us, n.period, n.rows, n.sum_a, n.sum_b
    FROM jsonb_to_recordset(changes->'ranges') AS n (from_us bigint, to_us bigint, period bigint,
        rows bigint, sum_a numeric, sum_b numeric)
    WHERE NOT EXISTS (SELECT FROM medusa_market.billed_range AS r
        WHERE r.contract = at.contract AND r.from_us = n.from_us);
    UPDATE medusa_market.billing_position AS b SET line_id = line,
        noted_us = (changes->>'noted_us')::bigint, noted_version = (changes->>'version')::bigint
    WHERE b.contract = at.contract AND (b.line_id, b.noted_us, b.noted_version)
        IS DISTINCT FROM (line, (changes->>'noted_us')::bigint, (changes->>'version')::bigint);
    IF FOUND THEN
        PERFORM medusa_market.hold_billed(at.contract, line, changes);
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.apply_billed(medusa_market.billing_position, integer, jsonb) IS
    'Add to what is counted how it differs, and hold what is not counted yet.';
