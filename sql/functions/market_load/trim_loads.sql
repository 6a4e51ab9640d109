CREATE OR REPLACE FUNCTION medusa_market.trim_loads(samples_max integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - medusa_market.load_kept();
    gone   bigint;
BEGIN
    DELETE FROM medusa_market.load_sample AS s WHERE s.sample_id = ANY (ARRAY(
        SELECT o.sample_id FROM medusa_market.load_sample AS o
        WHERE o.ended_at < before
        ORDER BY o.ended_at LIMIT greatest(samples_max, 0)
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
COMMENT ON FUNCTION medusa_market.trim_loads(integer) IS
    'Remove the oldest samples past their retention, at most this many; returns how many were '
    'removed.';
