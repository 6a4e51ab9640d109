CREATE OR REPLACE FUNCTION medusa_market.set_cost() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a cost function is not taken away: declare another one'
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.cost_function (kind, capacity, scale, points, threshold, currency)
    VALUES (NEW.kind,
        NEW.capacity,
        CASE WHEN NEW.kind = 'queue' THEN coalesce(NEW.scale, 1) END,
        NEW.points, NEW.threshold, NEW.currency)
    RETURNING number, set_at, set_by INTO NEW.number, NEW.set_at, NEW.set_by;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.set_cost() IS
    'A write to the view adds a row to the history.';
