CREATE OR REPLACE FUNCTION medusa_market.holdings_with(partner text)
RETURNS TABLE (contract text, number bigint, revision text, ends_at_ms bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.contract, a.number, a.revision, medusa.to_ms(medusa_market.ends_at(a.contract))
    FROM (
        SELECT DISTINCT ON (a.contract) a.contract, a.number, a.revision
        FROM medusa_market.contract_agreement AS a ORDER BY a.contract, a.number DESC
    ) AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    WHERE holdings_with.partner IN (r.payer, r.provider)
        AND medusa_market.here() <> holdings_with.partner
    ORDER BY a.contract
$$;
COMMENT ON FUNCTION medusa_market.holdings_with(text) IS
    'The agreements with a partner, contract by contract, and when each ends by notice.';
