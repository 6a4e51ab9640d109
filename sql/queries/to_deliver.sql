-- Sealed messages that are not in the partners' inboxes yet: the oldest of each, in order. A
-- partner that took nothing lately is paused for a while, unless `to_all`.
SELECT d.* FROM (
    SELECT o.message_id, o.receiver, o.kind, o.body, o.nonce, o.sent_at_ms, o.expires_at_ms,
        o.signature, row_number() OVER (PARTITION BY o.receiver ORDER BY o.message_id) AS place
    FROM medusa_market.outbox AS o
    WHERE o.acknowledged_at IS NULL AND (:to_all OR NOT EXISTS (
        SELECT FROM medusa_market.delivery_pause AS p
        WHERE p.partner = o.receiver AND p.tries_at > clock_timestamp()))
) AS d
WHERE d.place <= :messages_max AND d.nonce IS NOT NULL
ORDER BY d.receiver, d.message_id
