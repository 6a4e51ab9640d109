CREATE OR REPLACE FUNCTION medusa_market.terms_in_force(contract text, revision text)
RETURNS medusa_market.contract_revision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM medusa_api.contract_in_force AS c
    JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
    WHERE c.contract = terms_in_force.contract AND c.revision = terms_in_force.revision
$$;
COMMENT ON FUNCTION medusa_market.terms_in_force(text, text) IS
    'The terms of a contract, if just this revision is active and valid here now; else all '
    'NULL.';
