CREATE OR REPLACE FUNCTION medusa.guard_compaction() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named  numeric;
    stored bigint;
BEGIN
    SELECT sum(s.row_count) INTO named FROM medusa.segment AS s
    WHERE s.file_ids @> NEW.file_ids AND cardinality(s.file_ids) > 0;
    SELECT f.rows INTO stored FROM medusa.file AS f WHERE f.file_id = NEW.file_ids[1];
    IF named IS DISTINCT FROM stored THEN
        RAISE EXCEPTION 'the segments that name file % have % rows, the file has %: compact '
            'segments into a file of exactly their rows', NEW.file_ids[1], named, stored
            USING ERRCODE = 'MDS02';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.guard_compaction() IS
    'S2: a file that takes the place of others has as many rows as all segments that name it.';
