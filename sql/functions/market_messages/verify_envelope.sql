CREATE OR REPLACE FUNCTION medusa_market.verify_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
BEGIN
    UPDATE medusa_market.inbox AS i SET state = 'verified'
    WHERE i.envelope_id = verify_envelope.envelope_id AND i.state = 'received'
    RETURNING * INTO envelope;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM medusa_market.charge(envelope);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa_market.verify_envelope(bigint) IS
    'An envelope is its sender''s, and waits to be handled; its nonce counts once. Refused beyond '
    'its sender''s share.';
