CREATE OR REPLACE FUNCTION medusa.end_guests(open_ms bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended integer;
BEGIN
    SELECT count(*) FILTER (WHERE pg_terminate_backend(s.pid)) INTO ended
    FROM pg_stat_activity AS s
    WHERE s.datname = current_database() AND s.usename = current_database() || '_reader'
        AND s.pid <> pg_backend_pid()
        AND s.xact_start < clock_timestamp() - greatest(open_ms, 0) * interval '1 ms';
    RETURN ended;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN 0;  -- a home whose owner was not given this right; the role's own settings remain
END $$;
COMMENT ON FUNCTION medusa.end_guests(bigint) IS
    'End sessions of partners'' logins with a transaction open for longer, whatever their '
    'settings; returns how many.';
