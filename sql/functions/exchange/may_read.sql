CREATE OR REPLACE FUNCTION medusa.may_read(partner text, stream text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM medusa.stream_grant AS g
        WHERE (g.stream, g.partner) = (may_read.stream, may_read.partner))
$$;
COMMENT ON FUNCTION medusa.may_read(text, text) IS
    'Whether a stream is granted to a partner.';
