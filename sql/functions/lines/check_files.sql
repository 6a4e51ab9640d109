CREATE OR REPLACE FUNCTION medusa.check_files(
    stream text, from_us bigint, to_us bigint, file_ids bigint[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    -- Locked, like what a foreign key names: a file that is about to be named is not removed.
    PERFORM FROM medusa.file AS f WHERE f.file_id = ANY (check_files.file_ids) FOR KEY SHARE;
    SELECT id INTO bad FROM unnest(check_files.file_ids) AS id
    WHERE NOT EXISTS (SELECT FROM medusa.file AS f
        WHERE f.file_id = id AND f.stream = check_files.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'segment [%, %) names file %, which is not one of %: record the file first',
            check_files.from_us, check_files.to_us, bad, check_files.stream
            USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_files(text, bigint, bigint, bigint[]) IS
    'Raises unless the files are known and of the stream; they stay until the commit.';
