CREATE OR REPLACE FUNCTION medusa.withdraw_sink(stream text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM medusa.sink AS s
    WHERE (s.stream, s.name) = (withdraw_sink.stream, withdraw_sink.name);
    PERFORM medusa.release_hold(withdraw_sink.stream, 'sink:' || withdraw_sink.name, 'delivery');
END $$;
COMMENT ON FUNCTION medusa.withdraw_sink(text, text) IS
    'Deliver there no more; nothing if there is no such sink.';
