CREATE OR REPLACE FUNCTION medusa_market.end_proposal(proposal medusa_market.contract_proposal,
    state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision;
    here  text := medusa_market.here();
    other text;
BEGIN
    UPDATE medusa_market.contract_proposal AS p SET state = end_proposal.state,
        ended_at = clock_timestamp()
    WHERE p.proposal_id = proposal.proposal_id;
    PERFORM medusa_market.write_audit(end_proposal.state, proposal.contract,
        to_jsonb(proposal.revision), NULL);
    IF end_proposal.state = 'agreed' OR EXISTS (
        SELECT FROM medusa_market.contract_agreement AS a JOIN medusa_market.contract_revision AS r
            ON (r.contract, r.number) = (a.contract, a.number)
        WHERE r.revision = proposal.revision)
    THEN
        RETURN;  -- the agreement tells it
    END IF;
    SELECT * INTO terms FROM medusa_market.contract_revision AS r
        WHERE r.revision = proposal.revision;
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF proposal.proposed_by = here THEN
        DELETE FROM medusa_market.outbox AS o
        WHERE o.about = 'proposal/' || proposal.proposal_id AND o.nonce IS NULL;
        IF EXISTS (
            SELECT FROM medusa_market.outbox AS o
                WHERE o.about = 'proposal/' || proposal.proposal_id)
        THEN
            PERFORM medusa_market.put_out(other, 'withdrawal',
                'withdrawal/' || proposal.proposal_id,
                jsonb_build_object('contract', proposal.contract, 'revision', proposal.revision,
                    'proposal', proposal.proposal_id));
        ELSE  -- it was never sent
            UPDATE medusa_market.contract_proposal AS p SET let_go_at = clock_timestamp()
            WHERE p.proposal_id = proposal.proposal_id;
        END IF;
    ELSIF here = terms.payer THEN
        PERFORM medusa_market.put_out(other, 'let_go', 'let_go/' || proposal.proposal_id,
            jsonb_build_object('contract', proposal.contract, 'revision', proposal.revision,
                'proposal', proposal.partner_number));
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.end_proposal(medusa_market.contract_proposal, text) IS
    'End an open proposal; a partner that signed it or might sign it is notified.';
