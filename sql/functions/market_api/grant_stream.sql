CREATE OR REPLACE FUNCTION medusa_api.grant_stream(stream text, partner text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
    SELECT medusa_market.add_grant(grant_stream.stream, grant_stream.partner, 'owner')
$$;
COMMENT ON FUNCTION medusa_api.grant_stream(text, text) IS
    'For the owner: let a partner read a stream through the exchange server; whether it is new.';
