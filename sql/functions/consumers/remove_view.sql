CREATE OR REPLACE FUNCTION medusa.remove_view(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM medusa.stream_view AS v WHERE v.name = remove_view.name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- A reader keeps its own hold until it has read.
    DELETE FROM medusa.hold AS h
    WHERE (h.holder, h.purpose) = ('view:' || remove_view.name, 'view');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.remove_view(text) IS
    'Remove a view and its hold; whether there was one.';
