CREATE OR REPLACE FUNCTION medusa.check_writes(fragment text, stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.fragment AS f
        WHERE f.id = check_writes.fragment AND check_writes.stream = ANY (f.outputs))
    THEN
        RAISE EXCEPTION 'fragment % does not write stream %: commit it under the fragment that does',
            check_writes.fragment, check_writes.stream USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_writes(text, text) IS
    'Raises unless the fragment writes the stream.';
