CREATE OR REPLACE FUNCTION medusa_market.propose_document(document bytea, lasts_ms bigint,
    because text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa_market.contract_revision := medusa_market.terms_of(document);
    agreed medusa_market.contract_revision;
BEGIN
    PERFORM medusa_market.check_terms(terms);
    PERFORM medusa_market.check_promise(terms);
    IF medusa_market.contract_document(terms) <> propose_document.document THEN
        RAISE EXCEPTION 'the document of contract % does not say its terms as Medusa writes them: '
            'its hash would not be theirs', terms.contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.lock_contract(terms.contract);
    agreed := medusa_market.agreed_revision(terms.contract);
    IF agreed.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        RAISE EXCEPTION 'contract % is agreed to number % here, and number % does not follow that: '
            'read it again', terms.contract, coalesce(agreed.number, 0), terms.number
            USING ERRCODE = 'MD002';
    END IF;
    PERFORM medusa_market.check_length('a proposal', lasts_ms, 1);
    RETURN medusa_market.propose(terms, clock_timestamp()
        + least(lasts_ms, 31 * 86400000::bigint - 1000) * interval '1 ms', because);
END $$;
COMMENT ON FUNCTION medusa_market.propose_document(bytea, bigint, text) IS
    'Propose the terms of a document, which lasts so long; returns its revision. A conflict if it '
    'is not the next revision.';
