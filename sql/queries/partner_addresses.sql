-- The partners of this home: the newest key of each, and where its exchange server is reached if that
-- is known here.
SELECT DISTINCT ON (k.participant) k.participant, k.public_key, p.url, p.pin
FROM medusa_market.party_key AS k
LEFT JOIN medusa_market.partner AS p ON p.participant = k.participant
WHERE NOT k.is_past AND medusa_market.is_current_key(k.participant, k.public_key)
ORDER BY k.participant, k.key_id DESC
