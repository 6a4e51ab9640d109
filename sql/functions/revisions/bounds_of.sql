CREATE OR REPLACE FUNCTION medusa.bounds_of(ranges int8multirange) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(jsonb_build_array(lower(r), upper(r)) ORDER BY lower(r)) FROM unnest(ranges) AS r
$$;
COMMENT ON FUNCTION medusa.bounds_of(int8multirange) IS
    'Ranges as pairs of a beginning and an end, in order; NULL: there is none.';
