-- What was agreed on last under each contract that has not ended, whether it is active yet or not.
SELECT g.contract, g.document
FROM (
    SELECT DISTINCT ON (a.contract) a.contract, r.document, r.validity
    FROM medusa_market.contract_agreement AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    ORDER BY a.contract, a.number DESC
) AS g
WHERE least(upper(g.validity), medusa_market.ends_at(g.contract)) > statement_timestamp()
ORDER BY g.contract
