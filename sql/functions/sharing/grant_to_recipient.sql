CREATE OR REPLACE FUNCTION medusa_api.grant_to_recipient(stream text, recipient text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.check_names(grant_to_recipient.recipient);
    RETURN medusa_market.add_recipient(grant_to_recipient.stream, grant_to_recipient.recipient,
        'owner');
END $$;
COMMENT ON FUNCTION medusa_api.grant_to_recipient(text, text) IS
    'For the owner: let a recipient read a stream through Delta Sharing; whether that is new.';
