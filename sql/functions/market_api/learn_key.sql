CREATE OR REPLACE FUNCTION medusa_api.learn_key(participant text, public_key text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa_market.learn_key(participant, medusa_market.hex_key(public_key),
    'told by the owner') $$;
COMMENT ON FUNCTION medusa_api.learn_key(text, text) IS
    'Declare the key (64 hexadecimal digits) of a partner; returns whether it is new.';
