CREATE OR REPLACE FUNCTION medusa_market.messages_kept() RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT r.keep
    FROM medusa_market.message_retention AS r), '31 days'::interval) $$;
COMMENT ON FUNCTION medusa_market.messages_kept() IS
    'For how long offers, answers and refusals stay.';
