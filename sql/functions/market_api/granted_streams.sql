CREATE OR REPLACE FUNCTION medusa_api.granted_streams(partner text) RETURNS TABLE (stream text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.stream FROM medusa.stream_grant AS g WHERE g.partner = granted_streams.partner
    UNION
    SELECT s.stream FROM medusa_api.sold_streams(granted_streams.partner) AS s;
END $$;
COMMENT ON FUNCTION medusa_api.granted_streams(text) IS
    'The streams that a partner may read: those that are granted to it, and those that it buys.';
