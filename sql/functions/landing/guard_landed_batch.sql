CREATE OR REPLACE FUNCTION medusa.guard_landed_batch() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    same medusa.landed_batch;
BEGIN
    same := OLD;
    same.file_id := NULL;
    IF NEW IS DISTINCT FROM same OR EXISTS (
        SELECT FROM medusa.landed_bucket AS k
        JOIN medusa.stream_producer AS p ON p.line_id = k.line_id
        JOIN medusa.stream AS s ON s.name = p.stream
        WHERE k.line_id = OLD.line_id AND k.batch_no = OLD.batch_no
            AND (k.bucket_us + s.width_us <= p.trimmed_us) IS NOT TRUE)
    THEN
        RAISE EXCEPTION 'batch % of % stays as it landed: the table is insert-only but for files '
            'of batches that are trimmed', OLD.batch_id, OLD.stream USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_landed_batch() IS
    'S7: a batch no longer names its file when all its buckets are trimmed; its key remains.';
