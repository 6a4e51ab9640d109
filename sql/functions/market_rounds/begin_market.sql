CREATE OR REPLACE FUNCTION medusa_market.begin_market() RETURNS medusa_market.market
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    trades medusa_market.market;
BEGIN
    UPDATE medusa_market.market AS m SET changes = m.changes + 1 RETURNING * INTO trades;
    IF NOT FOUND THEN
        INSERT INTO medusa_market.market DEFAULT VALUES ON CONFLICT DO NOTHING;
        UPDATE medusa_market.market AS m SET changes = m.changes + 1 RETURNING * INTO trades;
    END IF;
    RETURN trades;
END $$;
COMMENT ON FUNCTION medusa_market.begin_market() IS
    'Serialise all writes about offers until the end of the transaction; returns how this '
    'participant trades.';
