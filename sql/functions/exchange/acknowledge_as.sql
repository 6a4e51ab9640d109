CREATE OR REPLACE FUNCTION medusa.acknowledge_as(
    partner text, stream text, through_us bigint, limit_ms bigint, path_ms bigint,
    replica integer DEFAULT 0, version bigint DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF medusa_api.may_read(acknowledge_as.partner, acknowledge_as.stream) IS NOT TRUE THEN
        RETURN false;
    END IF;
    PERFORM medusa.acknowledge(acknowledge_as.stream, acknowledge_as.partner,
        acknowledge_as.through_us, least(acknowledge_as.limit_ms,
            medusa_api.hold_max_of(acknowledge_as.partner, acknowledge_as.stream)),
        acknowledge_as.path_ms,
        acknowledge_as.replica, acknowledge_as.version);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.acknowledge_as(text, text, bigint, bigint, bigint, integer, bigint) IS
    'For the exchange server: acknowledge under the partner''s own name, and hold for as long as a '
    'contract permits. False: the stream is not granted to it, or is not there.';
