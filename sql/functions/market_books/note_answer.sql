CREATE OR REPLACE FUNCTION medusa_market.note_answer(
    claimed medusa_market.bill, outcome text, own bytea, amount numeric, blocked numeric,
    from_us bigint, to_us bigint, entries jsonb
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this_step CONSTANT integer := CASE WHEN note_answer.outcome IN ('claimed', 'own') THEN 2
        ELSE 1 END;
    before medusa_market.bill_answer;
    booked numeric;
BEGIN
    SELECT a.* INTO before FROM medusa_market.bill_answer AS a
    WHERE (a.contract, a.period, a.step) = (claimed.contract, claimed.period, this_step);
    IF FOUND THEN
        IF (before.outcome, before.amount) IS DISTINCT FROM (note_answer.outcome,
            note_answer.amount)
        THEN
            RAISE EXCEPTION 'the statement of contract %, period %, is answered already: %',
                claimed.contract, claimed.period, before.outcome USING ERRCODE = 'MD001';
        END IF;
        RETURN false;
    END IF;
    IF this_step = 2 AND NOT EXISTS (SELECT FROM medusa_market.bill_answer AS a
        WHERE (a.contract, a.period, a.step, a.outcome) =
            (claimed.contract, claimed.period, 1, 'disputed'))
    THEN
        RAISE EXCEPTION 'there is no dispute about contract %, period %', claimed.contract,
            claimed.period USING ERRCODE = 'MD002';
    END IF;
    IF note_answer.outcome IN ('agreed', 'claimed') AND note_answer.amount <> claimed.total THEN
        RAISE EXCEPTION 'the statement of contract %, period %, is of %, not of %',
            claimed.contract, claimed.period, claimed.total, note_answer.amount
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.bill_answer (contract, period, step, statement, outcome, own, amount,
        blocked, from_us, to_us)
    VALUES (claimed.contract, claimed.period, this_step, claimed.statement, note_answer.outcome,
        note_answer.own, note_answer.amount, note_answer.blocked, note_answer.from_us,
        note_answer.to_us);
    PERFORM medusa_market.book(note_answer.entries);
    SELECT coalesce(sum(p.amount), 0) INTO booked
    FROM medusa_market.book_entry AS e JOIN medusa_market.book_posting AS p USING (entry_id)
    WHERE e.statement = claimed.statement AND p.account = 'partner';
    IF booked <> (CASE medusa_market.here() WHEN claimed.payer THEN -note_answer.amount
        ELSE note_answer.amount END)
    THEN
        RAISE EXCEPTION 'the books have % of the statement of contract %, period %, and % is owed',
            booked, claimed.contract, claimed.period, note_answer.amount USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.write_audit('answered statement', claimed.contract, NULL,
        jsonb_build_object('period', claimed.period, 'outcome', note_answer.outcome, 'amount',
            note_answer.amount, 'blocked', note_answer.blocked));
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.note_answer(medusa_market.bill, text, bytea, numeric, numeric,
    bigint, bigint, jsonb) IS
    'Keep what the payer owes of a statement, and book it; false if that is known.';
