CREATE OR REPLACE FUNCTION medusa_api.issue_recipient_token(
    recipient text, lifetime interval DEFAULT '90 days'
) RETURNS TABLE (token text, token_id bigint, expires_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := clock_timestamp();
    made text;
    ends timestamptz := clock + issue_recipient_token.lifetime;
BEGIN
    PERFORM medusa_market.check_names(issue_recipient_token.recipient);
    IF (ends > clock + interval '1 second' AND ends <= clock + interval '366 days') IS NOT TRUE THEN
        RAISE EXCEPTION 'a recipient''s token is valid for 1 s to 366 days, not for %: give another '
            'lifetime', coalesce(quote_literal(issue_recipient_token.lifetime), 'NULL')
            USING ERRCODE = 'MD001';
    END IF;
    IF (SELECT count(*) FROM medusa_market.recipient_token AS t
        WHERE t.recipient = issue_recipient_token.recipient AND t.revoked_at IS NULL
            AND t.expires_at > clock) >= 16
    THEN
        RAISE EXCEPTION '% has 16 valid tokens: revoke one first', issue_recipient_token.recipient
            USING ERRCODE = 'MD001';
    END IF;
    -- Two random UUIDs have 244 random bits from the operating system.
    made := encode(sha256(convert_to(
        gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
    RETURN QUERY
        INSERT INTO medusa_market.recipient_token AS t (recipient, hash, issued_at, expires_at)
        VALUES (issue_recipient_token.recipient, sha256(convert_to(made, 'UTF8')), clock, ends)
        RETURNING made, t.token_id, t.expires_at;
    PERFORM medusa_market.write_audit('issued recipient token', issue_recipient_token.recipient, NULL,
        jsonb_build_object('expires_at', ends));
END $$;
COMMENT ON FUNCTION medusa_api.issue_recipient_token(text, interval) IS
    'For the owner: a new token for a recipient of Delta Sharing, which is returned this once.';
