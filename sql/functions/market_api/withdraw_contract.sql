CREATE OR REPLACE FUNCTION medusa_api.withdraw_contract(contract text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    own medusa_market.contract_proposal;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    SELECT * INTO own FROM medusa_market.contract_proposal AS p
    WHERE p.contract = withdraw_contract.contract AND p.proposed_by = medusa_market.here()
        AND p.state = 'open';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this home proposes nothing for contract %: to end what is agreed, DELETE '
            'it',
            contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.end_proposal(own, 'withdrawn');
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_api.withdraw_contract(text) IS
    'Withdraw this home''s proposal for a contract; the agreement remains.';
