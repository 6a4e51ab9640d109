CREATE OR REPLACE FUNCTION medusa_market.standing_with(partner text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', h.contract, h.number,
        h.revision, h.ends_at_ms), E'\n' ORDER BY h.contract COLLATE "C"), ''), 'UTF8')), 'hex')
    FROM medusa_market.holdings_with(standing_with.partner) AS h
$$;
COMMENT ON FUNCTION medusa_market.standing_with(text) IS
    'One hash of all that is agreed with a partner: equal where both hold the same.';
