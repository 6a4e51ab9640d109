CREATE OR REPLACE FUNCTION medusa_market.holdings_digest(partner text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', h.contract, h.number,
        h.revision, h.ends_at_ms), E'\n' ORDER BY h.contract COLLATE "C"), ''), 'UTF8')), 'hex')
    FROM medusa_market.holdings_with(holdings_digest.partner) AS h
$$;
COMMENT ON FUNCTION medusa_market.holdings_digest(text) IS
    'One hash of all that is agreed with a partner: equal where both hold the same.';
