CREATE OR REPLACE FUNCTION medusa.release_hold(stream text, holder text, purpose text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa.hold AS h
    WHERE h.stream = release_hold.stream AND h.holder = release_hold.holder
        AND h.purpose = release_hold.purpose
$$;
COMMENT ON FUNCTION medusa.release_hold(text, text, text) IS
    'Remove a hold; no effect if it does not exist.';
