-- Per contract the last answer given and got, for people to look at.
SELECT o.contract, w.is_own, o.level, o.price, a.reason, a.accepted, a.load, a.round,
    medusa.to_ms(a.made_at) AS made_at_ms
FROM medusa_market.last_word AS w
JOIN medusa_market.answer AS a ON a.answer_id = w.answer_id
JOIN medusa_market.offer AS o ON o.offer_id = a.offer_id
ORDER BY o.contract, w.is_own
