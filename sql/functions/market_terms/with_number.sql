CREATE OR REPLACE FUNCTION medusa_market.with_number(
    terms medusa_market.contract_revision, number bigint, supersedes text
) RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    terms.number := with_number.number;
    terms.supersedes := with_number.supersedes;
    terms.document := medusa_market.contract_document(terms);
    terms.revision := encode(sha256(terms.document), 'hex');
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa_market.with_number(medusa_market.contract_revision, bigint, text) IS
    'These terms as a revision of that number.';
