-- Messages that are to be sealed as envelopes: new ones, and those whose time has passed unsent.
-- Offers and answers are good for four rounds, and as much as clocks may differ; others for the
-- usual time.
SELECT o.message_id, o.receiver, o.kind, o.body, medusa.to_ms(clock_timestamp()) AS clock_ms,
    CASE WHEN o.kind IN ('offer', 'answer') THEN
        :clock_ms_max + 4 * coalesce((SELECT m.round_ms FROM medusa_market.market AS m), 60000)
        END AS lasts_ms
FROM medusa_market.outbox AS o
WHERE o.acknowledged_at IS NULL
    AND (o.nonce IS NULL OR o.expires_at_ms < medusa.to_ms(clock_timestamp()) + 60000)
ORDER BY o.message_id LIMIT :messages_max
