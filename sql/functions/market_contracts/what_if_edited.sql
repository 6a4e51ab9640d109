CREATE OR REPLACE FUNCTION medusa_market.what_if_edited(contract text, edits jsonb) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, MDY' AS $$
DECLARE
    existing medusa_api.contract;
    edited medusa_api.contract;
    terms  medusa_market.contract_revision;
    edit   jsonb;
BEGIN
    SELECT c.* INTO existing FROM medusa_api.contract AS c
    WHERE c.contract = what_if_edited.contract;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT r.* INTO terms FROM medusa_market.contract_revision AS r
    WHERE r.revision = coalesce(existing.partner_proposes, existing.revision);
    FOR edit IN SELECT * FROM jsonb_array_elements(edits) LOOP
        edited := jsonb_populate_record(existing, edit);
        terms := medusa_market.check_proposal(
            medusa_market.edited_terms(to_jsonb(existing), to_jsonb(edited)));
        existing := edited;
    END LOOP;
    terms := medusa_market.check_proposal(terms);
    RETURN (medusa_market.with_number(terms, terms.number, terms.supersedes)).document;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'contract % cannot be edited so: %', contract, SQLERRM USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa_market.what_if_edited(text, jsonb) IS
    'The terms of a contract after these edits (objects of columns and texts), each checked '
    'like an UPDATE of medusa_api.contract; without edits the partner''s proposal, else the '
    'present terms. Nothing is written. NULL: there is no such contract.';
