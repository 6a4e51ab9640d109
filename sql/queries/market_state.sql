-- How this participant trades, which round is open, and the clock: one row.
SELECT coalesce(m.round_ms, 60000) AS round_ms, coalesce(m.move_ms, 300000) AS move_ms,
    coalesce(m.residence_ms, 300000) AS residence_ms, coalesce(m.dead_band, 0.004) AS dead_band,
    coalesce(m.partners_max, 2) AS partners_max, coalesce(m.changes, 0) AS changes,
    coalesce(m.decided_round, 0) AS decided_round, coalesce(r.number, 0) AS round,
    medusa.to_ms(r.opened_at) AS opened_at_ms, medusa.to_ms(clock_timestamp()) AS clock_ms
FROM (SELECT 1) AS one
LEFT JOIN medusa_market.market AS m ON true
LEFT JOIN LATERAL (
    SELECT o.number, o.opened_at FROM medusa_market.round AS o
        ORDER BY o.number DESC LIMIT 1) AS r ON true
