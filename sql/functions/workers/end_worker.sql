CREATE OR REPLACE FUNCTION medusa.end_worker(name text, holder text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa.worker AS w SET expires_at = least(w.expires_at, clock_timestamp())
    WHERE (w.name, w.holder) = (end_worker.name, end_worker.holder);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.end_worker(text, text) IS
    'A worker is gone, before its time has passed.';
