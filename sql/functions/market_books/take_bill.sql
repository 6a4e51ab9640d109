CREATE OR REPLACE FUNCTION medusa_market.take_bill(
    envelope_id bigint, document bytea, signature bytea, public_key bytea) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given    jsonb := convert_from(take_bill.document, 'UTF8')::jsonb;
    envelope medusa_market.inbox;
    kept     medusa_market.bill;
BEGIN
    envelope := medusa_market.end_envelope(envelope_id);
    -- What a partner can make this home keep has a bound.
    IF (given->>'period')::bigint - 4096 > coalesce((
        SELECT b.period FROM medusa_market.billing_position AS b
        WHERE b.contract = given->>'contract'), 1)
    THEN
        RAISE EXCEPTION 'period % of contract % is far ahead of what this home states next',
            given->>'period', given->>'contract' USING ERRCODE = 'MD001';
    END IF;
    kept := medusa_market.keep_bill(take_bill.document, envelope.sender, NULL);
    IF (kept.provider, kept.payer) <> (envelope.sender, medusa_market.here()) THEN
        RAISE EXCEPTION 'the provider alone bills contract %', kept.contract
            USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.note_statement('bills ' || kept.statement, envelope.sender,
        take_bill.signature, take_bill.public_key);
    -- It was answered, and the provider does not know the answer: it is sent again.
    PERFORM medusa_market.put_bill_answer(kept.statement, a.outcome)
    FROM medusa_market.bill_answer AS a
    WHERE (a.contract, a.period) = (kept.contract, kept.period) ORDER BY a.step;
    RETURN CASE WHEN FOUND THEN 'answered' ELSE 'kept' END;
END $$;
COMMENT ON FUNCTION medusa_market.take_bill(bigint, bytea, bytea, bytea) IS
    'A provider bills this home; one that was answered before is answered again.';
