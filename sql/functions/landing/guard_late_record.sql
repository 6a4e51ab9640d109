CREATE OR REPLACE FUNCTION medusa.guard_late_record() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.quarantine_retry AS r
            WHERE r.quarantine_id = OLD.quarantine_id)
        AND NOT EXISTS (SELECT FROM medusa.stream_producer AS p
            WHERE p.line_id = OLD.line_id AND p.trimmed_us > OLD.bucket_us)
    THEN
        RAISE EXCEPTION 'late record % waits to be admitted: its values are kept until then',
            OLD.quarantine_id USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_late_record() IS
    'What is kept of a late record goes only once the record is in its stream, or its bucket is '
    'trimmed.';
