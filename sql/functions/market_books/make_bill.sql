CREATE OR REPLACE FUNCTION medusa_market.make_bill(
    document bytea, cut_us bigint, counts bigint, is_last boolean
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here  text := medusa_market.here();
    given jsonb := convert_from(make_bill.document, 'UTF8')::jsonb;
    at    medusa_market.billing_position;
    made  medusa_market.bill;
BEGIN
    -- 1 Is it made from what is counted now?
    SELECT b.* INTO at FROM medusa_market.billing_position AS b
    WHERE b.contract = given->>'contract' FOR UPDATE;
    IF (at.period, at.from_ms, at.counts) IS DISTINCT FROM
        ((given->>'period')::bigint, (given->>'from_ms')::bigint, make_bill.counts)
    THEN
        RAISE EXCEPTION 'what contract % bills was counted again meanwhile: read again',
            given->>'contract' USING ERRCODE = 'MD002';
    END IF;
    IF NOT make_bill.is_last AND EXISTS (SELECT FROM medusa_market.billed_line AS l
        WHERE (l.contract, l.subject) = (at.contract, '')
            AND l.noted_us < (given->>'to_ms')::bigint * 1000)
    THEN
        RAISE EXCEPTION 'period % of contract % is not final yet', at.period, at.contract
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 Keep it, and what it states of each range.
    made := medusa_market.keep_bill(make_bill.document, here, make_bill.cut_us);
    UPDATE medusa_market.billed_range AS r
    SET stated_rows = r.rows, stated_a = r.sum_a, stated_b = r.sum_b, price = coalesce(t.price, 0)
    FROM medusa_market.contract_revision AS t
    WHERE r.contract = at.contract AND r.period = at.period AND t.revision = made.revision;
    UPDATE medusa_market.billed_range AS r
    SET stated_rows = r.rows, stated_a = r.sum_a, stated_b = r.sum_b,
        price = (c.value->>6)::numeric
    FROM jsonb_array_elements(given->'charges') AS c
    WHERE r.contract = at.contract AND r.subject = '' AND c.value->>0 = 'correction'
        AND r.from_us = (c.value->>3)::bigint AND r.period < at.period;

    -- 3 The next period begins where this one ends; the provider bills what is owed.
    UPDATE medusa_market.billing_position AS b
    SET period = at.period + 1, from_ms = made.to_ms, has_ended = make_bill.is_last,
        number = (SELECT t.number FROM medusa_market.contract_revision AS t
            WHERE t.revision = made.revision)
    WHERE b.contract = at.contract;
    -- What was counted of load is kept until the statement after: it may be made again under the
    -- revision that the provider names.
    DELETE FROM medusa_market.billed_range AS r
    WHERE r.contract = at.contract AND r.subject <> '' AND r.period < at.period;
    UPDATE medusa_market.billed_line AS l SET noted_us = greatest(l.noted_us, made.to_ms * 1000)
    WHERE l.contract = at.contract;
    DELETE FROM medusa.hold AS h
    WHERE h.purpose = 'billing' AND split_part(h.holder, '/', 1) = 'contract:' || at.contract
        AND (make_bill.is_last OR EXISTS (
            SELECT FROM medusa_market.move AS m
            JOIN medusa_market.billed_line AS l
                ON (l.contract, l.subject) = (m.contract, m.number || '/' || h.stream)
            WHERE m.contract = at.contract AND l.noted_us >= m.to_us
                AND h.holder = 'contract:' || at.contract || '/' || m.number));
    UPDATE medusa.hold AS h SET from_us = l.noted_us
    FROM medusa_market.billed_line AS l
    WHERE l.contract = at.contract AND h.purpose = 'billing' AND h.from_us < l.noted_us
        AND h.holder = 'contract:' || l.contract || '/' || split_part(l.subject, '/', 1)
        AND h.stream = split_part(l.subject, '/', 2);
    IF here = made.provider AND jsonb_array_length(given->'charges') > 0 THEN
        PERFORM medusa_market.owe_statement('bills ' || made.statement);
    END IF;
    RETURN made.statement;
END $$;
COMMENT ON FUNCTION medusa_market.make_bill(bytea, bigint, bigint, boolean) IS
    'For jobs: keep this home''s statement of the next period, made from what is counted. The '
    'provider''s is signed and sent, unless nothing is charged.';
