CREATE OR REPLACE FUNCTION medusa_market.take_withdrawal(
    envelope_id bigint, contract text, revision text, sender_proposal bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    proposal medusa_market.contract_proposal;
    terms    medusa_market.contract_revision;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    envelope := medusa_market.end_envelope(envelope_id);
    terms := medusa_market.contract_with(contract, envelope.sender);
    IF EXISTS (
        SELECT FROM medusa_market.contract_agreement AS a
            WHERE a.revision = take_withdrawal.revision)
    THEN
        PERFORM medusa_market.send_agreements(contract, envelope.sender, (
            SELECT a.number FROM medusa_market.contract_agreement AS a
            WHERE a.revision = take_withdrawal.revision));
        RETURN 'agreed before it came';
    END IF;
    SELECT * INTO proposal FROM medusa_market.contract_proposal AS p
    WHERE p.revision = take_withdrawal.revision AND p.proposed_by = envelope.sender
        AND p.contract = take_withdrawal.contract AND p.partner_number = sender_proposal
    ORDER BY p.proposal_id DESC LIMIT 1;
    IF proposal.state = 'open' THEN
        PERFORM medusa_market.end_proposal(proposal, 'withdrawn');
        PERFORM pg_notify('medusa_progress', '');
    ELSIF medusa_market.here() = terms.payer THEN
        PERFORM medusa_market.put_out(envelope.sender, 'let_go', 'let_go/sent/' || sender_proposal,
            jsonb_build_object('contract', contract, 'revision', take_withdrawal.revision,
                'proposal', sender_proposal));
    END IF;
    RETURN 'withdrawn';
END $$;
COMMENT ON FUNCTION medusa_market.take_withdrawal(bigint, text, text, bigint) IS
    'A partner takes back what it proposed: gone, or agreed before, which it is sent.';
