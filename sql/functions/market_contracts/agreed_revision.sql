CREATE OR REPLACE FUNCTION medusa_market.agreed_revision(
    contract text) RETURNS medusa_market.contract_revision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM medusa_market.contract_agreement AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    WHERE a.contract = agreed_revision.contract ORDER BY a.number DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa_market.agreed_revision(text) IS
    'The last revision of a contract with both signatures; all NULL if there is none.';
