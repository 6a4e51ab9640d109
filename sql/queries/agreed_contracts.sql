-- What was agreed on last under each contract that has not ended, whether it is active yet or not.
SELECT g.contract, g.document
FROM (
    SELECT DISTINCT ON (a.contract) a.contract, r.document, least(upper(r.validity), (
        SELECT max(n.ends_at) FROM medusa.contract_notice AS n WHERE n.contract = a.contract
    )) AS ends_at
    FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    ORDER BY a.contract, a.number DESC
) AS g
WHERE g.ends_at > statement_timestamp()
ORDER BY g.contract
