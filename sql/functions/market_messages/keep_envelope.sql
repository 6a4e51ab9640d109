CREATE OR REPLACE FUNCTION medusa_market.keep_envelope(envelope_id bigint, reason text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
    UPDATE medusa_market.inbox AS i SET reason = left(keep_envelope.reason, 500)
    WHERE i.envelope_id = keep_envelope.envelope_id AND i.state = 'received'
        AND i.reason IS DISTINCT FROM left(keep_envelope.reason, 500)
$$;
COMMENT ON FUNCTION medusa_market.keep_envelope(bigint, text) IS
    'An envelope cannot be handled yet, and why; it is tried again until it is stale.';
