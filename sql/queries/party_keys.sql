-- The keys of each participant that this home knows any of, the newest first (`counts`: it signs new
-- messages); what was disowned is left out.
SELECT k.participant, k.public_key,
    medusa_market.is_current_key(k.participant, k.public_key) AS counts
FROM medusa_market.party_key AS k
WHERE NOT EXISTS (SELECT FROM medusa_market.key_disowned AS d WHERE d.public_key = k.public_key)
ORDER BY k.participant, k.is_past, k.key_id DESC
