CREATE OR REPLACE FUNCTION medusa_market.check_points(points double precision[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    many     integer := coalesce(array_length(points, 1), 0);
    slope    double precision;
    steeper  double precision;
    problem  text;
BEGIN
    IF many NOT BETWEEN 2 AND 1000 THEN
        problem := format('a cost function has %s points: write 2 to 1000', many);
    ELSIF array_ndims(points) <> 2 OR array_length(points, 2) <> 2
        OR array_lower(points, 1) <> 1 OR array_lower(points, 2) <> 1
    THEN
        problem := 'a point of a cost function is a load and a cost: write {{0, 0}, {1, 2}}';
    END IF;
    IF problem IS NULL THEN
        FOR n IN 1 .. many LOOP
            IF NOT (medusa_market.is_number(points[n][1])
                AND medusa_market.is_number(points[n][2])) THEN
                problem := format('point %s of the cost function is (%s, %s): write finite numbers',
                    n, coalesce(points[n][1]::text, 'NULL'), coalesce(points[n][2]::text, 'NULL'));
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF problem IS NULL AND points[1][1] <> 0 THEN
        problem := format('a cost function begins at load %s: let it begin at load 0',
            points[1][1]);
    END IF;
    IF problem IS NULL THEN
        FOR n IN 2 .. many LOOP
            IF points[n][1] <= points[n - 1][1] THEN
                problem := format('load %s follows load %s (point %s): sort them',
                    points[n][1], points[n - 1][1], n);
            ELSIF points[n][2] <= points[n - 1][2] THEN
                problem := format('cost %s follows cost %s (point %s): more load costs more',
                    points[n][2], points[n - 1][2], n);
            END IF;
            EXIT WHEN problem IS NOT NULL;
        END LOOP;
    END IF;
    IF problem IS NULL THEN
        FOR n IN 2 .. many LOOP
            steeper := (points[n][2] - points[n - 1][2]) / (points[n][1] - points[n - 1][1]);
            IF steeper < slope * (1 - 1e-9) THEN
                problem := format('behind point %s the cost rises by %s a unit of load, before it '
                    'by %s: a cost function is convex, let no later slope be smaller',
                    n - 1, steeper, slope);
                EXIT;
            END IF;
            slope := steeper;
        END LOOP;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'MD001';
    END IF;
EXCEPTION WHEN numeric_value_out_of_range THEN
    RAISE EXCEPTION 'a cost function rises too steeply or too little: write slopes that a number '
        'can hold' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa_market.check_points(double precision[]) IS
    'Raises, naming the first point that breaks it, unless they make an increasing, convex function.';
