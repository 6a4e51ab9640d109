CREATE OR REPLACE FUNCTION medusa_api.withdraw_stream(stream text, partner text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    sold text;
BEGIN
    SELECT s.contract INTO sold FROM medusa_api.sold_streams(withdraw_stream.partner) AS s
    WHERE s.stream = withdraw_stream.stream LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'contract % sells stream % to %: end the contract, or remove the partner',
            sold, withdraw_stream.stream, withdraw_stream.partner USING ERRCODE = 'MD001';
    END IF;
    RETURN medusa_market.end_grants(withdraw_stream.stream, withdraw_stream.partner);
END $$;
COMMENT ON FUNCTION medusa_api.withdraw_stream(text, text) IS
    'For the owner: end a partner''s access to a stream now, and its hold; whether it had access. '
    'Refused while a contract sells it the stream.';
