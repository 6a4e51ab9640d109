-- The key that counts of each participant that this home knows one of.
SELECT DISTINCT ON (k.participant) k.participant, k.public_key
FROM medusa.party_key AS k
ORDER BY k.participant, k.key_id DESC
