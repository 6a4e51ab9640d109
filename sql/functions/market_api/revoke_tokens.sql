CREATE OR REPLACE FUNCTION medusa_api.revoke_tokens(partner text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    revoked bigint;
BEGIN
    PERFORM medusa_market.check_names(revoke_tokens.partner);
    DELETE FROM medusa_market.access_token AS t WHERE t.partner = revoke_tokens.partner;
    GET DIAGNOSTICS revoked = ROW_COUNT;
    PERFORM medusa_market.write_audit('revoked tokens', revoke_tokens.partner, NULL, to_jsonb(revoked));
    RETURN revoked;
END $$;
COMMENT ON FUNCTION medusa_api.revoke_tokens(text) IS
    'For the owner: end all access tokens of a partner now; returns how many there were. With its '
    'key it may request others.';
