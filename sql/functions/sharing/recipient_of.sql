CREATE OR REPLACE FUNCTION medusa_market.recipient_of(token_hash bytea) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('token_id', t.token_id, 'recipient', t.recipient)
    FROM medusa_market.recipient_token AS t
    WHERE t.hash = recipient_of.token_hash AND t.revoked_at IS NULL
        AND t.expires_at > clock_timestamp()
$$;
COMMENT ON FUNCTION medusa_market.recipient_of(bytea) IS
    'For the exchange server: the number of a token and its recipient; NULL: there is none, or it has '
    'expired or was revoked.';
