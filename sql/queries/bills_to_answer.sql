-- Statements of providers that this home has not answered, where it has made its own; each with the
-- agreed revisions of the contract.
SELECT c.document AS claimed, o.document AS own, (
        SELECT jsonb_agg(jsonb_build_object('document', convert_from(r.document, 'UTF8'),
            'active_from_ms', medusa.to_ms(v.activated_at)) ORDER BY a.number)
        FROM medusa_market.contract_agreement AS a
        JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
        LEFT JOIN medusa_market.contract_activation AS v ON v.revision = a.revision
        WHERE a.contract = c.contract) AS revisions
FROM medusa_market.bill AS c
JOIN medusa.home AS h ON h.participant = c.payer
JOIN medusa_market.bill AS o ON (o.contract, o.period, o.made_by) = (c.contract, c.period, c.payer)
WHERE c.made_by = c.provider AND NOT EXISTS (
    SELECT FROM medusa_market.bill_answer AS a
    WHERE (a.contract, a.period) = (c.contract, c.period))
ORDER BY c.contract, c.period LIMIT :bills_max;
