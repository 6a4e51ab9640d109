CREATE OR REPLACE FUNCTION medusa_api.sold_streams(partner text)
RETURNS TABLE (stream text, contract text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.stream, c.contract
    FROM medusa_api.contract_in_force AS c
    JOIN medusa.home AS h ON h.participant = c.provider
    WHERE c.kind = 'content' AND c.payer = sold_streams.partner
$$;
COMMENT ON FUNCTION medusa_api.sold_streams(text) IS
    'The streams of this home that content contracts in force sell to a partner.';
