CREATE OR REPLACE FUNCTION medusa_market.end_grants(stream text, partner text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reasons text[];
BEGIN
    WITH ended AS (
        DELETE FROM medusa.stream_grant AS g
        WHERE (g.stream, g.partner) = (end_grants.stream, end_grants.partner)
        RETURNING g.reason
    )
    SELECT array_agg(e.reason ORDER BY e.reason) INTO reasons FROM ended AS e;
    IF reasons IS NULL THEN
        RETURN false;
    END IF;
    PERFORM medusa.release_hold(end_grants.stream, end_grants.partner, 'import');
    PERFORM medusa_market.write_audit('withdrawn stream', end_grants.stream,
        jsonb_build_object('partner', end_grants.partner, 'reasons', reasons), NULL);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.end_grants(text, text) IS
    'End all grants of a stream to a partner, and its hold; whether there was one.';
