CREATE OR REPLACE FUNCTION medusa_market.end_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own medusa_market.contract_proposal;
BEGIN
    SELECT * INTO own FROM medusa_market.contract_proposal AS p
    WHERE p.contract = end_contract.contract AND p.proposed_by = medusa_market.here()
        AND p.state = 'open';
    IF FOUND THEN
        PERFORM medusa_market.end_proposal(own, 'withdrawn');
        PERFORM pg_notify('medusa_progress', '');
    ELSIF (medusa_market.agreed_revision(contract)).revision IS NOT NULL THEN
        PERFORM medusa_market.give_notice(contract);
    ELSE
        RAISE EXCEPTION 'contract % is what the partner asks for: leave it, and it expires',
            contract USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.end_contract(text) IS
    'Withdraw this home''s proposal, or, if there is none, give notice of the agreement.';
