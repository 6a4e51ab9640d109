-- The round that is open, and since when.
SELECT r.number, medusa.to_ms(r.opened_at) AS opened_at_ms, r.opened_by, r.because
FROM medusa_market.round AS r ORDER BY r.number DESC LIMIT 1
