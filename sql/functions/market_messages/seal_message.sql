CREATE OR REPLACE FUNCTION medusa_market.seal_message(
    message_id bigint, nonce text, sent_at_ms bigint, expires_at_ms bigint, signature bytea
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa_market.outbox AS o SET nonce = seal_message.nonce,
        sent_at_ms = seal_message.sent_at_ms,
        expires_at_ms = seal_message.expires_at_ms, signature = seal_message.signature
    WHERE o.message_id = seal_message.message_id AND o.acknowledged_at IS NULL
        AND (o.nonce IS NULL OR o.expires_at_ms < medusa.to_ms(clock_timestamp()) + 60000);
END $$;
COMMENT ON FUNCTION medusa_market.seal_message(bigint, text, bigint, bigint, bytea) IS
    'Sign a message as an envelope; again when it expired before it arrived.';
