CREATE OR REPLACE FUNCTION medusa_api.withdraw_stream(stream text, partner text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    was_granted boolean;
BEGIN
    DELETE FROM medusa.stream_grant AS g
    WHERE (g.stream, g.partner) = (withdraw_stream.stream, withdraw_stream.partner);
    was_granted := FOUND;
    IF was_granted THEN
        PERFORM medusa.release_hold(withdraw_stream.stream, withdraw_stream.partner, 'import');
        PERFORM medusa_market.write_audit('withdrawn stream', withdraw_stream.stream,
            to_jsonb(withdraw_stream.partner), NULL);
    END IF;
    RETURN was_granted;
END $$;
COMMENT ON FUNCTION medusa_api.withdraw_stream(text, text) IS
    'For the owner: end a partner''s access to a stream now, and its hold; whether it had access.';
