CREATE OR REPLACE FUNCTION medusa.drop_cursor(stream text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM medusa.cursor AS c
    WHERE (c.stream, c.name) = (drop_cursor.stream, drop_cursor.name);
    PERFORM medusa.release_hold(drop_cursor.stream, 'cursor:' || drop_cursor.name, 'changes');
END $$;
COMMENT ON FUNCTION medusa.drop_cursor(text, text) IS
    'Remove a cursor and its hold; no effect if it does not exist.';
