-- Statements that this home made and received, by contract and period.
SELECT b.contract, b.period, b.made_by, b.state, b.payer, b.provider, b.currency, b.total, b.owed,
    b.blocked, b.from_ms, b.to_ms, b.statement
FROM medusa_api.bills AS b
WHERE b.contract = coalesce(:contract, b.contract)
ORDER BY b.contract, b.period, b.made_by = b.provider DESC;
