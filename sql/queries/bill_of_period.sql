-- The provider's statement of a period, and the payer's own one of a dispute, as far as known.
SELECT b.document AS claimed, a.own, medusa_market.is_disputed(b.contract, b.period) AS is_disputed
FROM medusa_market.bill AS b
LEFT JOIN medusa_market.bill_answer AS a
    ON (a.contract, a.period, a.step) = (b.contract, b.period, 1)
WHERE b.contract = :contract AND b.period = :period AND b.made_by = b.provider;
