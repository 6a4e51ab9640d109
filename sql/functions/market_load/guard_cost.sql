CREATE OR REPLACE FUNCTION medusa_market.guard_cost() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text;
BEGIN
    NEW.set_at := clock_timestamp();
    NEW.set_by := session_user;
    IF NEW.kind = 'queue' THEN
        IF NEW.points IS NOT NULL THEN
            problem := 'a queue has no points: write kind piecewise, or leave them out';
        ELSIF NOT medusa_market.is_number(NEW.capacity) OR NEW.capacity <= 0 THEN
            problem := format('a cost function''s capacity is %s: write a number above 0',
                coalesce(NEW.capacity::text, 'NULL'));
        ELSIF NOT medusa_market.is_number(NEW.scale) OR NEW.scale <= 0 THEN
            problem := format('a cost function''s scale is %s: write a number above 0',
                coalesce(NEW.scale::text, 'NULL'));
        END IF;
    ELSIF NEW.kind = 'piecewise' THEN
        IF NEW.capacity IS NOT NULL OR NEW.scale IS NOT NULL THEN
            problem := 'a piecewise cost function has points alone: write kind queue, or leave '
                'capacity and scale out';
        ELSE
            PERFORM medusa_market.check_points(NEW.points);
        END IF;
    ELSE
        problem := 'a cost function is of kind queue or piecewise: write one of them';
    END IF;
    IF problem IS NULL AND (NOT medusa_market.is_number(NEW.threshold) OR NEW.threshold <= 0) THEN
        problem := format('the threshold is %s: write a number above 0',
            coalesce(NEW.threshold::text, 'NULL'));
    ELSIF problem IS NULL AND NEW.threshold > NEW.capacity THEN
        problem := format('the threshold %s is beyond the capacity %s: write one that is no '
            'greater', NEW.threshold, NEW.capacity);
    ELSIF problem IS NULL AND (NEW.currency IS NULL OR NEW.currency !~ '^[A-Z]{3}$') THEN
        problem := format('%s is not a currency: write three capital letters, such as EUR',
            quote_nullable(left(NEW.currency, 40)));
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_cost() IS
    'Raises unless the declared function is increasing and convex, with a threshold and a '
    'currency.';
