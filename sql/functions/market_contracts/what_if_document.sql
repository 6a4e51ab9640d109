CREATE OR REPLACE FUNCTION medusa_market.what_if_document(document bytea) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision := medusa_market.check_proposal(medusa_market.terms_of(
        document));
BEGIN
    RETURN (medusa_market.with_number(terms, terms.number, terms.supersedes)).document;
END $$;
COMMENT ON FUNCTION medusa_market.what_if_document(bytea) IS
    'The proposal of this home with a document, checked like one; nothing is written.';
