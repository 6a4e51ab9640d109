CREATE OR REPLACE FUNCTION medusa.lock_own_lines() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM medusa.stream_producer AS p
    WHERE p.participant = (SELECT h.participant FROM medusa.home AS h)
    ORDER BY p.stream, p.participant, p.replica FOR UPDATE;
END $$;
COMMENT ON FUNCTION medusa.lock_own_lines() IS
    'Nothing is committed in this home until the transaction has ended.';
