CREATE OR REPLACE FUNCTION medusa_api.disown_key(participant text, public_key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given bytea := medusa_market.hex_key(disown_key.public_key);
BEGIN
    IF medusa_market.key_of(disown_key.participant) IS NOT DISTINCT FROM given THEN
        RAISE EXCEPTION 'this is the key of % that counts: call medusa_api.replace_key before',
            disown_key.participant USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.key_disowned (public_key, participant)
    VALUES (given, disown_key.participant) ON CONFLICT DO NOTHING;
    PERFORM medusa_market.write_audit('disowned key', disown_key.participant,
        to_jsonb(disown_key.public_key), NULL);
END $$;
COMMENT ON FUNCTION medusa_api.disown_key(text, text) IS
    'Declare that another party may have signed with a key that was replaced: new messages '
    'under it are refused from now on.';
