-- The provider's statements, or this home's own where none has been received, those in dispute and then
-- the newest first, with what is owed of each.
SELECT b.contract, b.period, b.state, b.payer, b.provider, b.currency,
    b.total::text AS total, b.owed::text AS owed, b.blocked::text AS blocked, b.from_ms, b.to_ms,
    medusa.to_ms(b.answered_at) AS answered_ms, b.statement
FROM medusa_api.bills AS b
WHERE b.made_by = b.provider OR NOT EXISTS (
    SELECT FROM medusa_market.bill AS o
    WHERE (o.contract, o.period) = (b.contract, b.period) AND o.made_by = o.provider)
ORDER BY b.state <> 'disputed', b.to_ms DESC, b.contract LIMIT :most;
