CREATE OR REPLACE FUNCTION medusa.guard_trimmed_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE p.line_id = OLD.line_id AND OLD.to_us <= p.trimmed_us)
    THEN
        RAISE EXCEPTION 'segment [%, %) is not trimmed: trim its line first', OLD.from_us,
            OLD.to_us USING ERRCODE = 'MDS07';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_trimmed_segment() IS
    'S7: only trimmed buckets are removed.';
