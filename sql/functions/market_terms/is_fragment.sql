CREATE OR REPLACE FUNCTION medusa_market.is_fragment(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name ~ '^[a-z][a-z0-9_]{0,62}([.][a-z][a-z0-9_]{0,62})?$' $$;
COMMENT ON FUNCTION medusa_market.is_fragment(text) IS
    'Whether a text can name a fragment in a contract: FRAGMENT or NETWORK.FRAGMENT.';
