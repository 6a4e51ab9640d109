CREATE OR REPLACE FUNCTION medusa_market.is_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name ~ '^[a-z][a-z0-9_]{0,62}$' $$;
COMMENT ON FUNCTION medusa_market.is_name(text) IS
    'Whether a text can name a participant, a contract, a stream or a fragment; NULL of NULL.';
