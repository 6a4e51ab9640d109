-- The provider's statements of a contract that this home received, in the order of their periods.
SELECT b.document FROM medusa_market.bill AS b
JOIN medusa.home AS h ON h.participant = b.payer
WHERE b.contract = :contract AND b.made_by = b.provider AND b.period < :before
ORDER BY b.period;
