-- The last agreed document of each contract, whether it is active or not.
SELECT DISTINCT ON (a.contract) a.contract, r.document
FROM medusa_market.contract_agreement AS a
JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
ORDER BY a.contract, a.number DESC
