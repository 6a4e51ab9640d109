-- Partners that have not answered lately, since when, and in which round they may get offers again.
SELECT s.partner, medusa.to_ms(s.since) AS since_ms, s.asks_round
    FROM medusa_market.silent_partner AS s
