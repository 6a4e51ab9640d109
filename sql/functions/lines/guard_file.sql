CREATE OR REPLACE FUNCTION medusa.guard_file() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM medusa.segment AS s
            WHERE s.file_ids @> ARRAY[OLD.file_id] AND cardinality(s.file_ids) > 0)
        OR EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = OLD.file_id)
    THEN
        RAISE EXCEPTION 'file % is named by a segment or a landed batch: the table is insert-only '
            'but for files that nothing names', OLD.path USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_file() IS 'S10: a file that is named stays known.';
