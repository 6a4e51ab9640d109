CREATE OR REPLACE FUNCTION medusa.record_delivery(
    stream text, name text, document text, through_us bigint, version bigint, rows bigint,
    lost_us bigint, limit_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.sink AS s
    SET through_us = record_delivery.through_us, version = record_delivery.version,
        rows = record_delivery.rows, lost_us = record_delivery.lost_us, problem = NULL,
        delivered_at = clock_timestamp()
    WHERE (s.stream, s.name, s.document) =
        (record_delivery.stream, record_delivery.name, record_delivery.document);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'sink % of % was withdrawn or changed meanwhile: look again',
            record_delivery.name, record_delivery.stream USING ERRCODE = 'MD002';
    END IF;
    PERFORM medusa.place_hold(record_delivery.stream, 'sink:' || record_delivery.name, 'delivery',
        record_delivery.through_us, record_delivery.limit_ms);
END $$;
COMMENT ON FUNCTION
    medusa.record_delivery(text, text, text, bigint, bigint, bigint, bigint, bigint) IS
    'Copy the position recorded in a target, and hold from there.';
