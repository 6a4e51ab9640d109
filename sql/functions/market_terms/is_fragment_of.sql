CREATE OR REPLACE FUNCTION medusa_market.is_fragment_of(name text, part text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name = part OR split_part(name, '.', 2) = part $$;
COMMENT ON FUNCTION medusa_market.is_fragment_of(text, text) IS
    'Whether two names of a fragment may mean the same in a contract: FRAGMENT also means '
    'NETWORK.FRAGMENT.';
