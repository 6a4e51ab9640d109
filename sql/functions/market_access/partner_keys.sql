CREATE OR REPLACE FUNCTION medusa_market.partner_keys(partner text) RETURNS bytea[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(k.public_key ORDER BY k.key_id DESC), '{}')
    FROM (
        SELECT e.public_key, e.key_id FROM medusa_market.party_key AS e
        WHERE e.participant = partner_keys.partner AND NOT e.is_past
            AND partner_keys.partner <> medusa_market.here()
            AND medusa_market.is_current_key(e.participant, e.public_key)
        ORDER BY e.key_id DESC LIMIT 8
    ) AS k
$$;
COMMENT ON FUNCTION medusa_market.partner_keys(text) IS
    'For the exchange server: the keys that a partner''s assertions are verified with, the newest '
    'first, 8 at most: each costs time before anybody has proved anything.';
