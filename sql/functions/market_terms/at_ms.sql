CREATE OR REPLACE FUNCTION medusa_market.at_ms(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (timestamp 'epoch' + make_interval(
        days => (ms / 86400000)::integer, secs => (ms % 86400000) / 1000.0)) AT TIME ZONE 'UTC'
$$;
COMMENT ON FUNCTION medusa_market.at_ms(bigint) IS
    'The time that is so many ms after the epoch, exactly.';
