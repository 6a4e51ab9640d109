-- Offers that wait for an answer, own ones and partners', in order.
SELECT o.offer_id, o.is_own, o.partner, o.relays, o.round, o.body, w.is_stale,
    medusa.to_ms(w.expires_at) AS expires_at_ms
FROM medusa_market.open_offer AS w JOIN medusa_market.offer AS o ON o.offer_id = w.offer_id
ORDER BY o.offer_id
