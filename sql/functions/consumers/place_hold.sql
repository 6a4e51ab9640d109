CREATE OR REPLACE FUNCTION medusa.place_hold(
    stream text, holder text, purpose text, from_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = place_hold.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: hold one that is', place_hold.stream
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, limit_ms)
    VALUES (place_hold.stream, place_hold.holder, place_hold.purpose, place_hold.from_us,
        place_hold.limit_ms)
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = excluded.from_us, limit_ms = excluded.limit_ms, placed_at = clock_timestamp();
END $$;
COMMENT ON FUNCTION medusa.place_hold(text, text, text, bigint, bigint) IS
    'Keep buckets from one on; the same holder and purpose moves its hold.';
