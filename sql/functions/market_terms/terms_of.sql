CREATE OR REPLACE FUNCTION medusa_market.terms_of(
    document bytea) RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  jsonb;
    terms  medusa_market.contract_revision;
BEGIN
    IF (octet_length(document) BETWEEN 2 AND 65536) IS NOT TRUE THEN
        RAISE EXCEPTION 'a contract of % bytes: none is longer than 64 KiB',
            coalesce(octet_length(document), 0) USING ERRCODE = 'MD001';
    END IF;
    given := convert_from(document, 'UTF8')::jsonb;
    SELECT * INTO terms FROM jsonb_populate_record(NULL::medusa_market.contract_revision,
        given->'subject' || coalesce(given->'subject'->'availability', '{}')
        || (given - ARRAY['subject', 'validity', 'revision', 'document', 'known_at']));
    terms.validity := tstzrange(medusa_market.at_ms((given->>'valid_from_ms')::bigint),
        medusa_market.at_ms((given->>'valid_until_ms')::bigint));
    terms.document := terms_of.document;
    terms.revision := encode(sha256(terms_of.document), 'hex');
    terms.known_at := clock_timestamp();
    RETURN terms;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'this is no contract''s document: send one as Medusa writes it'
        USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa_market.terms_of(bytea) IS
    'The columns of a document; the table checks that it is canonical.';
