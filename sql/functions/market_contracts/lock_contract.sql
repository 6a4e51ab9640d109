CREATE OR REPLACE FUNCTION medusa_market.lock_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa_market.check_names(lock_contract.contract);
    UPDATE medusa_market.contract_order AS o SET edits = o.edits + 1
    WHERE o.contract = lock_contract.contract;
    IF NOT FOUND THEN
        IF (SELECT count(*) FROM medusa_market.contract_order AS o
            WHERE o.brought_by IS NULL) >= 10000
        THEN
            RAISE EXCEPTION 'this home has named 10,000 contracts: it takes no more'
                USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa_market.contract_order (contract) VALUES (lock_contract.contract)
        ON CONFLICT DO NOTHING;
        UPDATE medusa_market.contract_order AS o SET edits = o.edits + 1
        WHERE o.contract = lock_contract.contract;
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.lock_contract(text) IS
    'Edits and documents of one contract come one after the other, from here to the end of the '
    'transaction.';
