CREATE OR REPLACE FUNCTION medusa_market.contract_of_boxes(
    contract text, payer text, provider text) RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision;
BEGIN
    SELECT r.* INTO terms
    FROM medusa_api.contract_in_force AS c
    JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
    WHERE (c.contract, c.kind, c.payer, c.provider) = (contract_of_boxes.contract, 'content',
        contract_of_boxes.payer, contract_of_boxes.provider) AND r.boxes IS NOT NULL;
    IF NOT FOUND THEN
        -- One sentence, so that nobody learns which contracts others have.
        RAISE EXCEPTION 'no contract % in force lets % define boxes: name a content contract with '
            'boxes', contract_of_boxes.contract, contract_of_boxes.payer USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa_market.contract_of_boxes(text, text, text) IS
    'The terms of a content contract in force under which the payer may define boxes.';
