CREATE OR REPLACE FUNCTION medusa_market.check_promise(terms medusa_market.contract_revision)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF terms.kind <> 'movement' THEN
        RETURN;
    END IF;
    IF terms.method = 'active_standby' AND terms.replicas <> 2 THEN
        RAISE EXCEPTION 'contract % promises % replicas, but the payer and the provider of a moved '
            'fragment compute it, and nobody else: write 2', terms.contract, terms.replicas
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.method <> 'active_standby' AND terms.replicas <> 1 THEN
        RAISE EXCEPTION 'contract % promises % replicas, but with method % one participant at a time '
            'computes a moved fragment: write 1, or the method active_standby', terms.contract,
            terms.replicas, terms.method USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_promise(medusa_market.contract_revision) IS
    'Refuse to propose replicas of a moved fragment that no payer and provider are. What was agreed '
    'before this rule stays.';
