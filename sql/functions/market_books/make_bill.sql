CREATE OR REPLACE FUNCTION medusa_market.make_bill(
    document bytea, cut_us bigint, noted_us bigint, noted_version bigint, is_last boolean
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
    IF (at.period, at.from_ms, at.noted_us, at.noted_version) IS DISTINCT FROM
        ((given->>'period')::bigint, (given->>'from_ms')::bigint, make_bill.noted_us,
        make_bill.noted_version)
    THEN
        RAISE EXCEPTION 'what contract % bills was counted again meanwhile: read again',
            given->>'contract' USING ERRCODE = 'MD002';
    END IF;
    IF at.noted_us < (given->>'to_ms')::bigint * 1000 AND NOT make_bill.is_last THEN
        RAISE EXCEPTION 'period % of contract % is not final yet', at.period, at.contract
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 Keep it, and what it states of each range.
    made := medusa_market.keep_bill(make_bill.document, here, make_bill.cut_us);
    UPDATE medusa_market.billed_range AS r
    SET stated_rows = r.rows, stated_a = r.sum_a, stated_b = r.sum_b, price = t.price
    FROM medusa_market.contract_revision AS t
    WHERE r.contract = at.contract AND r.period = at.period AND t.revision = made.revision;
    UPDATE medusa_market.billed_range AS r
    SET stated_rows = r.rows, stated_a = r.sum_a, stated_b = r.sum_b,
        price = (c.value->>6)::numeric
    FROM jsonb_array_elements(given->'charges') AS c
    WHERE r.contract = at.contract AND c.value->>0 = 'correction'
        AND r.from_us = (c.value->>3)::bigint AND r.period < at.period;

    -- 3 The next period begins where this one ends; the provider bills what is owed.
    UPDATE medusa_market.billing_position AS b
    SET period = at.period + 1, from_ms = made.to_ms, has_ended = make_bill.is_last,
        number = (SELECT t.number FROM medusa_market.contract_revision AS t
            WHERE t.revision = made.revision),
        noted_us = greatest(b.noted_us, made.to_ms * 1000)
    WHERE b.contract = at.contract;
    IF make_bill.is_last THEN
        DELETE FROM medusa.hold AS h
        WHERE h.holder = 'contract:' || at.contract AND h.purpose = 'billing';
    END IF;
    IF here = made.provider AND jsonb_array_length(given->'charges') > 0 THEN
        PERFORM medusa_market.owe_statement('bills ' || made.statement);
    END IF;
    RETURN made.statement;
END $$;
COMMENT ON FUNCTION medusa_market.make_bill(bytea, bigint, bigint, bigint, boolean) IS
    'For jobs: keep this home''s statement of the next period, made from what is counted. The '
    'provider''s is signed and sent, unless nothing is charged.';
