CREATE OR REPLACE FUNCTION medusa_market.load_kept() RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT r.keep FROM medusa_market.load_retention AS r), '30 days'::interval) $$;
COMMENT ON FUNCTION medusa_market.load_kept() IS 'For how long samples of load stay.';
