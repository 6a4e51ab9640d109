CREATE OR REPLACE FUNCTION medusa_market.is_removed(partner text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM medusa_market.partner AS p
        WHERE p.participant = is_removed.partner AND p.is_removed);
END $$;
COMMENT ON FUNCTION medusa_market.is_removed(text) IS
    'Whether the owner has removed a partner, and it has not joined again since.';
