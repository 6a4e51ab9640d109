CREATE OR REPLACE FUNCTION medusa_market.guard_trading() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong record;
BEGIN
    SELECT s.name, s.value, s.range INTO wrong FROM (VALUES
        ('round_ms', NEW.round_ms::text, NEW.round_ms BETWEEN 1000 AND 86400000,
            'milliseconds from 1000 (a second) to 86400000 (a day)'),
        ('move_ms', NEW.move_ms::text, NEW.move_ms BETWEEN 100 AND 604800000,
            'milliseconds from 100 to 604800000 (7 days)'),
        ('residence_ms', NEW.residence_ms::text, NEW.residence_ms BETWEEN 0 AND 604800000,
            'milliseconds from 0 to 604800000 (7 days)'),
        ('dead_band', NEW.dead_band::text, NEW.dead_band >= 0 AND NEW.dead_band < 1,
            'a share of a price, from 0 to less than 1'),
        ('partners_max', NEW.partners_max::text, NEW.partners_max BETWEEN 1 AND 2, '1 or 2')
    ) AS s (name, value, is_valid, range)
    WHERE s.is_valid IS NOT TRUE LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is %: write %', wrong.name, coalesce(wrong.value, 'NULL'), wrong.range
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_trading() IS
    'Raises for a setting of trading that is out of its range, and names the range.';
