-- The documents of a period: the provider's statement first.
SELECT b.made_by, b.document, b.provider
FROM medusa_market.bill AS b
WHERE b.contract = :contract AND b.period = :period ORDER BY b.made_by = b.provider DESC;
