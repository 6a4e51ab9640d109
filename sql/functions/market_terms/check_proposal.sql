CREATE OR REPLACE FUNCTION medusa_market.check_proposal(given medusa_market.contract_revision)
RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms  medusa_market.contract_revision := given;
    agreed medusa_market.contract_revision;
    here   text := medusa_market.here();
    other  text;
    ends   timestamptz;
BEGIN
    -- 1 Whose contract, and what is agreed of it?
    IF (here IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'this is the home of %, no party of contract %: let its payer or its '
            'provider edit it', here, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.key_of(here) IS NULL THEN
        RAISE EXCEPTION '% has no key to sign with yet: run medusa apply', here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa_market.agreed_revision(terms.contract);
    ends := least(medusa_market.ends_at(terms.contract), upper(agreed.validity));
    IF ends <= clock_timestamp() OR medusa_market.ends_at(terms.contract) IS NOT NULL THEN
        RAISE EXCEPTION 'contract % ends at %: make another one under another name', terms.contract,
            ends USING ERRCODE = 'MD001';
    END IF;
    IF agreed.revision IS NOT NULL AND (agreed.kind, agreed.payer, agreed.provider)
        IS DISTINCT FROM (terms.kind, terms.payer, terms.provider)
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider), which '
            'stays: make another one', terms.contract, agreed.kind, agreed.payer, agreed.provider
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 Are the terms sound?
    terms := medusa_market.sorted_terms(terms);
    terms.number := coalesce(agreed.number, 0) + 1;
    terms.supersedes := agreed.revision;
    PERFORM medusa_market.check_terms(terms);
    PERFORM medusa_market.check_promise(terms);
    IF upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % would have ended at %: let it be valid longer', terms.contract,
            upper(terms.validity) USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.check_overlap(terms);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF medusa_market.key_of(other) IS NULL THEN
        RAISE EXCEPTION 'no key of participant % is known here: if it is one, call '
            'medusa_api.learn_key with the key that it shows', other USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa_market.check_proposal(medusa_market.contract_revision) IS
    'Refuse terms that this home may not propose now; else the same terms as the next revision.';
