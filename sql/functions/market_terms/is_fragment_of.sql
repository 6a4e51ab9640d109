CREATE OR REPLACE FUNCTION medusa_market.is_fragment_of(name text, part text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name = part OR split_part(name, '.', 2) = part $$;
COMMENT ON FUNCTION medusa_market.is_fragment_of(text, text) IS
    'Whether a contract may mean the same by two names of a fragment: NETWORK.FRAGMENT is also '
    'what FRAGMENT names.';
