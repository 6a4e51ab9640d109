CREATE OR REPLACE FUNCTION medusa_market.is_current_key(
    participant text, public_key bytea
) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(
            medusa_market.key_of(is_current_key.participant) = is_current_key.public_key, false)
        AND NOT EXISTS (SELECT FROM medusa_market.key_disowned AS d
            WHERE d.public_key = is_current_key.public_key)
$$;
COMMENT ON FUNCTION medusa_market.is_current_key(text, bytea) IS
    'Whether this is the key by which a participant is known here now.';
