CREATE OR REPLACE FUNCTION medusa_api.may_read(partner text, stream text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Contracts are looked at only if there is no grant: each request for a file asks.
    RETURN EXISTS (SELECT FROM medusa.stream_grant AS g
            WHERE (g.stream, g.partner) = (may_read.stream, may_read.partner))
        OR EXISTS (SELECT FROM medusa_api.sold_streams(may_read.partner) AS s
            WHERE s.stream = may_read.stream);
END $$;
COMMENT ON FUNCTION medusa_api.may_read(text, text) IS
    'Whether a partner may read a stream: it is granted to the partner, or the partner buys it.';
