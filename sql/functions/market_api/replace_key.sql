CREATE OR REPLACE FUNCTION medusa_api.replace_key(participant text, public_key text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- With an invitation that is still open the earlier key could be brought back.
    DELETE FROM medusa_market.invitation AS i WHERE i.partner = replace_key.participant;
    RETURN medusa_market.learn_key(replace_key.participant,
        medusa_market.hex_key(replace_key.public_key), 'replaced by the owner', true);
END $$;
COMMENT ON FUNCTION medusa_api.replace_key(text, text) IS
    'Declare on purpose that a participant has another key from now on; its invitation ends.';
