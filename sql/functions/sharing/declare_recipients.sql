CREATE OR REPLACE FUNCTION medusa_api.declare_recipients(
    stream text, recipients text[], is_public boolean
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    each record;
    has_changed boolean := false;
BEGIN
    PERFORM medusa_market.check_names(VARIADIC declare_recipients.recipients);
    FOR each IN
        DELETE FROM medusa.recipient_grant AS g
        WHERE g.stream = declare_recipients.stream AND (
            (g.reason = 'recipients' AND g.recipient <> ALL (declare_recipients.recipients))
            OR (g.reason = 'public' AND declare_recipients.is_public IS NOT TRUE))
        RETURNING g.recipient, g.reason
    LOOP
        PERFORM medusa_market.write_audit('no longer shared stream', declare_recipients.stream,
            jsonb_build_object('recipient', each.recipient, 'reasons', ARRAY[each.reason]), NULL);
        has_changed := true;
    END LOOP;
    FOR each IN
        SELECT r.name, 'recipients' AS reason FROM unnest(declare_recipients.recipients) AS r (name)
        UNION ALL SELECT '*', 'public' WHERE declare_recipients.is_public
    LOOP
        has_changed := medusa_market.add_recipient(declare_recipients.stream, each.name, each.reason)
            OR has_changed;
    END LOOP;
    RETURN has_changed;
END $$;
COMMENT ON FUNCTION medusa_api.declare_recipients(text, text[], boolean) IS
    'For the owner: which recipients may read a stream by its contract, and no others for this '
    'reason; whether that changes anything.';
