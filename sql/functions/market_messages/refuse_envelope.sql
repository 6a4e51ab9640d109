CREATE OR REPLACE FUNCTION medusa_market.refuse_envelope(envelope_id bigint, reason text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    refused medusa_market.inbox;
    message    text := left(refuse_envelope.reason, 500);
    alike   bigint;
    last_id bigint;
BEGIN
    SELECT * INTO refused FROM medusa_market.inbox AS i
    WHERE i.envelope_id = refuse_envelope.envelope_id AND i.state IN ('received', 'verified')
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT count(*), max(i.envelope_id) INTO alike, last_id FROM medusa_market.inbox AS i
    WHERE i.state = 'refused' AND i.sender = refused.sender AND i.kind = refused.kind
        AND i.reason = message AND i.ended_at > clock_timestamp() - interval '1 hour';
    IF alike >= (CASE WHEN message LIKE 'too much: %' THEN 1 ELSE 16 END) THEN
        UPDATE medusa_market.inbox AS i SET repeats = i.repeats + 1 WHERE i.envelope_id = last_id;
        DELETE FROM medusa_market.inbox AS i WHERE i.envelope_id = refused.envelope_id;
    ELSE
        UPDATE medusa_market.inbox AS i SET state = 'refused', reason = message, body = '',
            ended_at = clock_timestamp()
        WHERE i.envelope_id = refused.envelope_id;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.refuse_envelope(bigint, text) IS
    'An envelope counts for nothing, and why; false if it has been handled. After 16 alike of a '
    'sender within an hour, and after one that was beyond its share, the others are only counted.';
