CREATE OR REPLACE FUNCTION medusa_market.tidy_partners() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.tidy_inbox();
    PERFORM medusa_market.tidy_outbox();
    RETURN medusa_market.tidy_market(1000);
END $$;
COMMENT ON FUNCTION medusa_market.tidy_partners() IS
    'Housekeeping of messages from and to partners, a piece of it; returns how many offers and '
    'answers were removed.';
