-- Disputes about statements, and how they ended.
SELECT d.contract, d.period, d.state, d.payer, d.provider, d.currency, d.claimed, d.agreed,
    d.blocked, d.from_us, d.to_us, d.owed
FROM medusa_api.bill_disputes AS d ORDER BY d.contract, d.period;
