CREATE OR REPLACE FUNCTION medusa_market.take_let_go(
    envelope_id bigint, contract text, revision text, sender_proposal bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    envelope := medusa_market.end_envelope(envelope_id);
    PERFORM medusa_market.contract_with(contract, envelope.sender);
    UPDATE medusa_market.contract_proposal AS p SET let_go_at = clock_timestamp()
    WHERE p.contract = take_let_go.contract AND p.revision = take_let_go.revision
        AND p.proposal_id = sender_proposal AND p.proposed_by = medusa_market.here()
        AND p.state <> 'open' AND p.let_go_at IS NULL;
    RETURN 'let go';
END $$;
COMMENT ON FUNCTION medusa_market.take_let_go(bigint, text, text, bigint) IS
    'The payer states that it will not sign a proposal that this home withdrew.';
