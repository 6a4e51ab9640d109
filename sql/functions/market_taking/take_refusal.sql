CREATE OR REPLACE FUNCTION medusa_market.take_refusal(
    envelope_id bigint, contract text, number bigint, revision text, newest bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    terms    medusa_market.contract_revision;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT r.* INTO terms FROM medusa_market.contract_agreement AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    WHERE (a.contract, a.number, a.revision)
        = (take_refusal.contract, take_refusal.number, take_refusal.revision);
    IF NOT FOUND THEN
        RETURN 'it is not held here';
    END IF;
    IF terms.provider <> envelope.sender THEN
        RAISE EXCEPTION '% refuses number % of contract %, whose provider is another participant',
            envelope.sender, terms.number, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa_market.statement AS s
        WHERE s.statement = 'holds ' || terms.revision AND s.party = terms.provider)
    THEN
        PERFORM medusa_market.send_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'the partner has stated that it holds it';
    END IF;
    PERFORM medusa_market.void_agreements(terms.contract, terms.number,
        envelope.sender || ' refuses it: it came too late');
    IF newest >= terms.number THEN
        PERFORM medusa_market.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract, 'number', terms.number));
    END IF;
    RETURN 'void';
END $$;
COMMENT ON FUNCTION medusa_market.take_refusal(bigint, text, bigint, text, bigint) IS
    'The provider refuses an agreement of this home: it is void, unless the provider has '
    'stated once that it holds it, which is sent to it.';
