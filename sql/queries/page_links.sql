-- The links with the partners of this home, in times of its clock: what it reads there (client) and
-- what it serves (server); with side NULL a partner of which nothing was reported.
WITH partner AS (
    SELECT DISTINCT k.participant
    FROM medusa_market.party_key AS k, medusa.home AS h
    WHERE NOT k.is_past AND k.participant <> h.participant
)
SELECT p.participant AS partner, l.side::text AS side, l.state::text AS state, l.error,
    medusa.to_ms(l.state_since) AS state_since_ms, medusa.to_ms(l.answered_at) AS answered_at_ms,
    medusa.to_ms(l.reported_at) AS reported_at_ms, l.answer_ms, l.answer_ms_max, l.delay_ms,
    l.delay_ms_max, l.requests, l.failures
FROM partner AS p LEFT JOIN medusa_market.link AS l ON l.partner = p.participant
ORDER BY p.participant, l.side;
