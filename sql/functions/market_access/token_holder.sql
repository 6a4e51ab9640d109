CREATE OR REPLACE FUNCTION medusa_market.token_holder(token_hash bytea) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT t.partner FROM medusa_market.access_token AS t
        WHERE t.hash = token_holder.token_hash AND t.expires_at > clock_timestamp()
            AND medusa_market.is_current_key(t.partner, t.public_key)
    );
END $$;
COMMENT ON FUNCTION medusa_market.token_holder(bytea) IS
    'The partner that a token was issued to; NULL: none, it is over, revoked, or the partner''s key '
    'is another one now.';
