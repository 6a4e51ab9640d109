CREATE OR REPLACE FUNCTION medusa_market.take_concession(
    envelope_id bigint, contract text, period bigint, statement text, amount numeric, entries jsonb
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    claimed  medusa_market.bill;
BEGIN
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT b.* INTO claimed FROM medusa_market.bill AS b
    WHERE (b.contract, b.period, b.statement, b.made_by, b.provider, b.payer) =
        (take_concession.contract, take_concession.period, take_concession.statement,
        envelope.sender, envelope.sender, medusa_market.here())
    FOR UPDATE;
    IF NOT FOUND OR NOT medusa_market.is_disputed(claimed.contract, claimed.period) THEN
        RETURN 'nothing';
    END IF;
    PERFORM medusa_market.answer_bill(claimed.statement, 'own', NULL, take_concession.amount, 0,
        NULL, NULL, take_concession.entries);
    RETURN 'ended';
END $$;
COMMENT ON FUNCTION medusa_market.take_concession(bigint, text, bigint, text, numeric, jsonb) IS
    'A provider takes this home''s own statement: the dispute ends with what that says.';
