CREATE OR REPLACE FUNCTION medusa_market.is_computed_before(move medusa_market.move, at_us bigint)
RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT bool_or(coalesce(medusa_market.stable_us(p), at_us) <= at_us)
    FROM medusa_market.streams_of_move(move) AS s
    JOIN medusa.stream_producer AS p ON (p.stream, p.participant, p.replica) =
        (s.stream, s.participant, s.replica)
    WHERE s.participant = medusa_market.here() AND s.replica = move.number
$$;
COMMENT ON FUNCTION medusa_market.is_computed_before(medusa_market.move, bigint) IS
    'Whether this home, which computes a moved fragment, has not made the bucket at a time final; '
    'NULL where no time is given.';
