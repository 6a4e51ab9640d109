CREATE OR REPLACE FUNCTION medusa_market.guard_revision() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW := medusa_market.sorted_terms(NEW);
    PERFORM medusa_market.check_terms(NEW);
    IF NEW.document IS NULL THEN
        NEW.document := medusa_market.contract_document(NEW);
    ELSIF NEW.document <> medusa_market.contract_document(NEW) THEN
        RAISE EXCEPTION 'the document of contract % does not say its terms as Medusa writes them: '
            'its hash would not be theirs', NEW.contract USING ERRCODE = 'MD001';
    END IF;
    NEW.revision := encode(sha256(NEW.document), 'hex');
    IF octet_length(NEW.document) > 65536 THEN
        RAISE EXCEPTION 'a contract of % bytes: none is longer than 64 KiB',
            octet_length(NEW.document) USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_revision() IS
    'A revision''s columns, document and hash are the same; sets are sorted.';
