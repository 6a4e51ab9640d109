CREATE OR REPLACE FUNCTION medusa_market.learn_first_key(participant text, public_key bytea,
    because text)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa_market.learn_key(participant, public_key, because) $$;
COMMENT ON FUNCTION medusa_market.learn_first_key(text, bytea, text) IS
    'For jobs: record a key of a participant without a known key; returns whether it is new.';
