-- Disputes about statements that this home received, which have not ended.
SELECT d.contract, d.period FROM medusa_api.bill_disputes AS d
JOIN medusa.home AS h ON h.participant = d.payer
WHERE d.state = 'open' ORDER BY d.contract, d.period;
