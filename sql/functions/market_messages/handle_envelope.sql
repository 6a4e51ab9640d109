CREATE OR REPLACE FUNCTION medusa_market.handle_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa_market.inbox AS i SET state = 'handled', body = '', ended_at = clock_timestamp()
    WHERE i.envelope_id = handle_envelope.envelope_id AND i.state = 'verified';
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa_market.handle_envelope(bigint) IS
    'A verified envelope has been handled; false if it was before.';
