CREATE OR REPLACE FUNCTION medusa.close_view(name text, reader text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa.hold AS h
    WHERE (h.holder, h.purpose) =
        ('view:' || close_view.name, 'reading ' || close_view.reader)
$$;
COMMENT ON FUNCTION medusa.close_view(text, text) IS
    'A reader of a view has read it; no effect if it holds nothing.';
