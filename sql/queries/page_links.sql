-- The links with the partners of this home, in times of its clock: what it reads there (client) and
-- what it serves (server).
WITH partner AS (
    SELECT DISTINCT k.participant
    FROM medusa_market.party_key AS k, medusa.home AS h
    WHERE NOT k.is_past AND k.participant <> h.participant
        AND medusa_market.is_current_key(k.participant, k.public_key)
)
SELECT p.participant AS partner, l.side::text AS side, l.state::text AS state, l.error,
    medusa.to_ms(l.state_since) AS state_since_ms, medusa.to_ms(l.reported_at) AS reported_at_ms,
    l.answer_ms, l.delay_ms
FROM partner AS p JOIN medusa_market.link AS l ON l.partner = p.participant
ORDER BY p.participant, l.side;
