CREATE OR REPLACE FUNCTION medusa_api.replace_key(participant text, public_key text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa_market.learn_key(participant, medusa_market.hex_key(public_key),
    'replaced by the owner', true) $$;
COMMENT ON FUNCTION medusa_api.replace_key(text, text) IS
    'Declare on purpose that a participant has another key from now on.';
