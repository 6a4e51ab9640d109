CREATE OR REPLACE FUNCTION medusa.guard_hold() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One after the other with trimming: it must see every hold that was placed before.
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = NEW.stream FOR SHARE;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_hold() IS 'S7: a hold is placed before or after a trim.';
