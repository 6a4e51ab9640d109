CREATE OR REPLACE FUNCTION medusa_market.take_bill_answer(
    envelope_id bigint, statement text, outcome text, own bytea, amount numeric, blocked numeric,
    from_us bigint, to_us bigint, entries jsonb, signature bytea, public_key bytea
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    claimed  medusa_market.bill;
BEGIN
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT b.* INTO claimed FROM medusa_market.bill AS b
    WHERE b.statement = take_bill_answer.statement AND b.made_by = medusa_market.here()
        AND (b.provider, b.payer) = (medusa_market.here(), envelope.sender)
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this home has not billed % a statement %', envelope.sender,
            left(take_bill_answer.statement, 12) USING ERRCODE = 'MD001';
    END IF;
    IF NOT medusa_market.note_answer(claimed, take_bill_answer.outcome, take_bill_answer.own,
        take_bill_answer.amount, take_bill_answer.blocked, take_bill_answer.from_us,
        take_bill_answer.to_us, take_bill_answer.entries)
    THEN
        RETURN 'known';
    END IF;
    PERFORM medusa_market.note_statement(format('owes %s %s %s', claimed.statement,
        take_bill_answer.outcome, trim_scale(take_bill_answer.amount)), envelope.sender,
        take_bill_answer.signature, take_bill_answer.public_key);
    RETURN take_bill_answer.outcome;
END $$;
COMMENT ON FUNCTION medusa_market.take_bill_answer(bigint, text, text, bytea, numeric, numeric,
    bigint, bigint, jsonb, bytea, bytea) IS
    'A payer answers a statement of this home, or ends the dispute about it.';
