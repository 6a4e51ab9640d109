CREATE OR REPLACE FUNCTION medusa_market.billable_line(
    stream text, provider text, known bigint, to_us bigint) RETURNS integer
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    -- Replicas have equal final rows. Another one is taken only if the known one has stopped: what
    -- is revised meanwhile would count twice.
    SELECT p.line_id
    FROM medusa.stream_producer AS p
    CROSS JOIN LATERAL (SELECT medusa_market.stable_us(p) AS stable_us) AS s
    WHERE p.stream = billable_line.stream AND p.participant = billable_line.provider
        AND p.replica >= 0
    ORDER BY billable_line.known IS NOT NULL AND p.line_id <> billable_line.known
            AND (s.stable_us >= billable_line.to_us
                AND medusa.to_ms(clock_timestamp()) - 3600000 > billable_line.to_us / 1000) IS NOT TRUE,
        s.stable_us >= billable_line.to_us DESC NULLS LAST,
        p.line_id <> coalesce(billable_line.known, 0), s.stable_us DESC NULLS LAST, p.replica
    LIMIT 1
$$;
COMMENT ON FUNCTION medusa_market.billable_line(text, text, bigint, bigint) IS
    'The line of a sold stream that is counted: the known one, unless it has stopped for an hour '
    'before the end of the period and another one has not; NULL: there is none.';
