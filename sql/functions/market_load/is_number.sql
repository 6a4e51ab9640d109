CREATE OR REPLACE FUNCTION medusa_market.is_number(n double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT n IS NOT NULL AND n NOT IN ('NaN', 'Infinity', '-Infinity') $$;
COMMENT ON FUNCTION medusa_market.is_number(double precision) IS 'Neither NULL, NaN nor infinite.';
