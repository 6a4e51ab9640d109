CREATE OR REPLACE FUNCTION medusa_market.answer_bill(
    statement text, outcome text, own bytea, amount numeric, blocked numeric, from_us bigint,
    to_us bigint, entries jsonb
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    claimed medusa_market.bill;
BEGIN
    SELECT b.* INTO claimed FROM medusa_market.bill AS b
    WHERE b.statement = answer_bill.statement AND b.made_by = b.provider
        AND b.payer = medusa_market.here()
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no statement % was received here', left(answer_bill.statement, 12)
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT medusa_market.note_answer(claimed, answer_bill.outcome, answer_bill.own,
        answer_bill.amount, answer_bill.blocked, answer_bill.from_us, answer_bill.to_us,
        answer_bill.entries)
    THEN
        RETURN false;
    END IF;
    PERFORM medusa_market.owe_statement(format('owes %s %s %s', claimed.statement,
        answer_bill.outcome, trim_scale(answer_bill.amount)));
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.answer_bill(text, text, bytea, numeric, numeric, bigint, bigint,
    jsonb) IS
    'For jobs of the payer: answer a statement, or end the dispute about it; the answer is signed '
    'and sent. False if it was answered so before.';
