CREATE OR REPLACE FUNCTION medusa_market.refuse_too_much(what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'too much: %', what USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa_market.refuse_too_much(text) IS
    'Refuse a message beyond a partner''s share: refusals with this beginning are recorded '
    'once an hour.';
