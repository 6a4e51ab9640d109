CREATE OR REPLACE FUNCTION medusa_market.end_envelope(
    envelope_id bigint) RETURNS medusa_market.inbox
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    envelope medusa_market.inbox;
BEGIN
    SELECT * INTO envelope FROM medusa_market.inbox AS i
    WHERE i.envelope_id = end_envelope.envelope_id AND i.state IN ('received', 'verified')
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'envelope % is handled already: look at the next', envelope_id
            USING ERRCODE = 'MD002';
    END IF;
    UPDATE medusa_market.inbox AS i SET state = 'handled', reason = NULL, body = '',
        ended_at = clock_timestamp()
    WHERE i.envelope_id = end_envelope.envelope_id;
    IF envelope.state = 'received' THEN
        PERFORM medusa_market.charge(envelope);
    END IF;
    RETURN envelope;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa_market.end_envelope(bigint) IS
    'End an envelope, in the transaction that carries out its message; its nonce counts once. '
    'Returns the envelope as it was before.';
