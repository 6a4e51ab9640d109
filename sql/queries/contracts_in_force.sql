-- Contracts that are active and valid now, with the round from which on and when they end.
SELECT c.contract, c.revision, c.round, c.document, medusa.to_ms(upper(c.validity)) AS ends_at_ms
FROM medusa_api.contract_in_force AS c
ORDER BY c.contract
