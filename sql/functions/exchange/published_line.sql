CREATE OR REPLACE FUNCTION medusa.published_line(
    partner text, stream text, replica integer
) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT medusa_api.may_read(published_line.partner, published_line.stream) AND EXISTS (
            SELECT FROM medusa.stream_producer AS p
            JOIN medusa.home AS h ON h.participant = p.participant
            WHERE (p.stream, p.replica) = (published_line.stream, published_line.replica)
                AND p.replica >= 0)
    );
END $$;
COMMENT ON FUNCTION medusa.published_line(text, text, integer) IS
    'Whether this home computes a line of a stream that is granted to a partner: copies of others'' '
    'lines are published by their own homes.';
