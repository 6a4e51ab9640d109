CREATE OR REPLACE FUNCTION medusa_api.revoke_recipient_tokens(
    recipient text, token_id bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    revoked bigint;
BEGIN
    PERFORM medusa_market.check_names(revoke_recipient_tokens.recipient);
    UPDATE medusa_market.recipient_token AS t SET revoked_at = clock_timestamp()
    WHERE t.recipient = revoke_recipient_tokens.recipient AND t.revoked_at IS NULL
        AND t.expires_at > clock_timestamp()
        AND t.token_id = coalesce(revoke_recipient_tokens.token_id, t.token_id);
    GET DIAGNOSTICS revoked = ROW_COUNT;
    IF revoked > 0 THEN
        PERFORM medusa_market.write_audit('revoked recipient tokens',
            revoke_recipient_tokens.recipient, to_jsonb(revoke_recipient_tokens.token_id),
            to_jsonb(revoked));
    END IF;
    RETURN revoked;
END $$;
COMMENT ON FUNCTION medusa_api.revoke_recipient_tokens(text, bigint) IS
    'For the owner: end one token of a recipient now, or all of them (NULL); returns how many counted '
    'until now.';
