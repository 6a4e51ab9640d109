-- The contracts in force that sell a stream.
SELECT c.contract, c.payer, c.provider, c.currency, r.price::text AS price, r.per,
    medusa.to_ms(lower(c.validity)) AS from_ms,
    medusa.to_ms(upper(c.validity)) AS to_ms, c.number
FROM medusa_api.contract_in_force AS c
JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
WHERE c.stream = :stream ORDER BY c.contract LIMIT 50;
