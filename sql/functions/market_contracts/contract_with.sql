CREATE OR REPLACE FUNCTION medusa_market.contract_with(contract text,
    sender text) RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision;
BEGIN
    SELECT r.* INTO terms FROM medusa_market.contract_revision AS r
    WHERE r.contract = contract_with.contract ORDER BY r.number DESC LIMIT 1;
    IF NOT FOUND OR (sender IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'there is no contract % with % here', left(contract, 80), sender
            USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa_market.contract_with(text, text) IS
    'Any revision of a contract with a partner; refused if there is none.';
