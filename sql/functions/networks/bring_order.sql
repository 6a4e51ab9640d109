CREATE OR REPLACE FUNCTION medusa.bring_order() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO medusa.stream_order (stream) VALUES (NEW.name);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.bring_order() IS 'Every stream has its row in stream_order.';
