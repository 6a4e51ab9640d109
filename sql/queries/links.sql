-- The links with the partners of this home, two rows for each: the side of the client and that of the
-- server; with side NULL a partner of which nothing was reported.
WITH partner AS (
    SELECT DISTINCT k.participant
    FROM medusa_market.party_key AS k, medusa.home AS h
    WHERE NOT k.is_past AND k.participant <> h.participant
        AND medusa_market.is_current_key(k.participant, k.public_key)
), now AS (SELECT clock_timestamp() AS at)
SELECT p.participant AS partner, l.side, l.state,
    medusa.to_ms(now.at) - medusa.to_ms(l.state_since) AS state_ago_ms, l.error,
    medusa.to_ms(now.at) - medusa.to_ms(l.failed_at) AS failed_ago_ms,
    medusa.to_ms(now.at) - medusa.to_ms(l.answered_at) AS answered_ago_ms,
    medusa.to_ms(now.at) - medusa.to_ms(l.reported_at) AS reported_ago_ms,
    coalesce(l.requests, 0) AS requests, coalesce(l.failures, 0) AS failures,
    coalesce(l.files, 0) AS files, coalesce(l.bytes_received, 0) AS bytes_received,
    coalesce(l.bytes_sent, 0) AS bytes_sent, l.answer_ms, l.answer_ms_max, l.delay_ms,
    l.delay_ms_max
FROM partner AS p
CROSS JOIN now
LEFT JOIN medusa_market.link AS l ON l.partner = p.participant
ORDER BY p.participant, l.side;
