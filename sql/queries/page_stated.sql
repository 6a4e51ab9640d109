-- The statements of the last periods of a contract: of each period that of one party, the home's own if
-- there is one.
SELECT DISTINCT ON (b.period) b.period, b.document FROM medusa_market.bill AS b, medusa.home AS h
WHERE b.contract = :contract
ORDER BY b.period DESC, b.made_by = h.participant DESC LIMIT :most;
