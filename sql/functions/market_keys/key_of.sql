CREATE OR REPLACE FUNCTION medusa_market.key_of(participant text) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.public_key FROM medusa_market.party_key AS k
    WHERE k.participant = key_of.participant AND NOT k.is_past
    ORDER BY k.key_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa_market.key_of(text) IS
    'The key of a participant that counts; NULL: none is known.';
