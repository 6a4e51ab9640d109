-- Messages that are to be sealed as envelopes: new ones, and those whose time has passed unsent.
SELECT o.message_id, o.receiver, o.kind, o.body, medusa.to_ms(clock_timestamp()) AS clock_ms
FROM medusa.outbox AS o
WHERE o.acknowledged_at IS NULL
    AND (o.nonce IS NULL OR o.expires_at_ms < medusa.to_ms(clock_timestamp()) + 60000)
ORDER BY o.message_id LIMIT :messages_max
