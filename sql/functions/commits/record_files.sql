CREATE OR REPLACE FUNCTION medusa.record_files(stream text, files jsonb) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids   bigint[];
    other text;
BEGIN
    INSERT INTO medusa.file (stream, path, size_bytes, sha256, rows)
    SELECT record_files.stream, w.path, w.size_bytes, w.sha256, w.rows
    FROM jsonb_to_recordset(files) AS w (path text, size_bytes bigint, sha256 text, rows bigint)
    ORDER BY w.path
    ON CONFLICT (path) DO NOTHING;
    SELECT array_agg(f.file_id ORDER BY w.i),
        min(w.path) FILTER (WHERE (f.stream, f.size_bytes, f.sha256, f.rows)
            IS DISTINCT FROM (record_files.stream, w.size_bytes, w.sha256, w.rows))
    INTO ids, other
    FROM ROWS FROM (jsonb_to_recordset(files)
            AS (path text, size_bytes bigint, sha256 text, rows bigint)) WITH ORDINALITY
        AS w (path, size_bytes, sha256, rows, i)
    JOIN medusa.file AS f ON f.path = w.path;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'file % is known with other content or for another stream: '
            'write under a new name', other USING ERRCODE = 'MD001';
    END IF;
    RETURN coalesce(ids, '{}');
END $$;
COMMENT ON FUNCTION medusa.record_files(text, jsonb) IS
    'The ids of files, new or known; raises if a path is known with another content.';
