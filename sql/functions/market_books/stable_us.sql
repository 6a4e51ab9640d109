CREATE OR REPLACE FUNCTION medusa_market.stable_us(line medusa.stream_producer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(line.boundary_us, (
        SELECT s.from_us FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        ORDER BY s.to_us LIMIT 1))
$$;
COMMENT ON FUNCTION medusa_market.stable_us(medusa.stream_producer) IS
    'Where the stable prefix of a line ends: the greatest bigint once the line has ended, NULL if it '
    'has not begun.';
