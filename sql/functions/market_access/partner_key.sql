CREATE OR REPLACE FUNCTION medusa_market.partner_key(partner text) RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.key FROM (SELECT medusa_market.key_of(partner_key.partner)) AS k (key)
    WHERE partner_key.partner <> medusa_market.here()
        AND medusa_market.is_current_key(partner_key.partner, k.key)
$$;
COMMENT ON FUNCTION medusa_market.partner_key(text) IS
    'For the exchange server: the key that a partner''s assertions are verified with; NULL: none.';
