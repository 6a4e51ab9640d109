CREATE OR REPLACE FUNCTION medusa_market.resume_delivery(partner text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$$ DELETE FROM medusa_market.delivery_pause AS p WHERE p.partner = resume_delivery.partner $$;
COMMENT ON FUNCTION medusa_market.resume_delivery(text) IS 'A partner''s inbox takes messages.';
