CREATE OR REPLACE FUNCTION medusa_api.withdraw_from_recipient(stream text, recipient text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    reasons text[];
BEGIN
    PERFORM medusa_market.check_names(withdraw_from_recipient.recipient);
    IF EXISTS (SELECT FROM medusa.recipient_grant AS g
        WHERE (g.stream, g.recipient) = (withdraw_from_recipient.stream, '*'))
    THEN
        RAISE EXCEPTION 'stream % is public: remove public from its contract and apply it, or revoke '
            'the tokens of %', withdraw_from_recipient.stream, withdraw_from_recipient.recipient
            USING ERRCODE = 'MD001';
    END IF;
    WITH ended AS (
        DELETE FROM medusa.recipient_grant AS g
        WHERE (g.stream, g.recipient)
            = (withdraw_from_recipient.stream, withdraw_from_recipient.recipient)
        RETURNING g.reason
    )
    SELECT array_agg(e.reason ORDER BY e.reason) INTO reasons FROM ended AS e;
    IF reasons IS NULL THEN
        RETURN false;
    END IF;
    PERFORM medusa_market.write_audit('no longer shared stream', withdraw_from_recipient.stream,
        jsonb_build_object('recipient', withdraw_from_recipient.recipient, 'reasons', reasons),
        NULL);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_api.withdraw_from_recipient(text, text) IS
    'For the owner: end a recipient''s access to a stream now; whether it had access. Refused for a '
    'public stream.';
