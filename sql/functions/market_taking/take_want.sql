CREATE OR REPLACE FUNCTION medusa_market.take_want(envelope_id bigint, contract text, number bigint)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    envelope := medusa_market.end_envelope(envelope_id);
    PERFORM medusa_market.contract_with(contract, envelope.sender);
    PERFORM medusa_market.send_agreements(contract, envelope.sender, take_want.number);
    RETURN 'sent again';
END $$;
COMMENT ON FUNCTION medusa_market.take_want(bigint, text, bigint) IS
    'A partner lacks what was agreed from a number on: it is sent again.';
