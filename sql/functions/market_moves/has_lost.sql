CREATE OR REPLACE FUNCTION medusa_market.has_lost(move medusa_market.move, at_us bigint)
RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT at_us < medusa.to_ms(clock_timestamp()) * 1000
        AND bool_or(s.is_output AND coalesce(s.stable_us, at_us) <= at_us)
        AND bool_and(s.is_output OR s.stable_us > at_us)
    FROM (
        SELECT o.is_output, medusa_market.stable_us(p) AS stable_us
        FROM medusa_market.streams_of_move(move) AS o
        LEFT JOIN medusa.stream_producer AS p ON (p.stream, p.participant, p.replica) =
            (o.stream, o.participant, o.replica)
    ) AS s
    WHERE at_us IS NOT NULL
$$;
COMMENT ON FUNCTION medusa_market.has_lost(medusa_market.move, bigint) IS
    'Whether this home has the inputs of the bucket at a time of a fragment that it computes for a '
    'payer, and has not made the bucket final; NULL where no time is given.';
