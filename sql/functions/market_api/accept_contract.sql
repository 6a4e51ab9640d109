CREATE OR REPLACE FUNCTION medusa_api.accept_contract(contract text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa_market.contract_proposal;
    terms    medusa_market.contract_revision;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    SELECT * INTO proposal FROM medusa_market.contract_proposal AS p
    WHERE p.contract = accept_contract.contract AND p.proposed_by <> medusa_market.here()
        AND p.state = 'open' AND p.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the partner proposes nothing for contract % now: look at '
            'medusa_api.contract_proposals', contract USING ERRCODE = 'MD001';
    END IF;
    SELECT * INTO terms FROM medusa_market.contract_revision AS r
        WHERE r.revision = proposal.revision;
    RETURN medusa_market.propose(terms, proposal.expires_at, 'accepted in SQL');
END $$;
COMMENT ON FUNCTION medusa_api.accept_contract(text) IS
    'Propose the partner''s proposal for a contract, and so accept it; returns the revision.';
