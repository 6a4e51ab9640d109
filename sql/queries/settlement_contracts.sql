-- The contracts that bill something here and have not been stated to their end: agreed revisions by
-- number and since when each is active here, how far they are stated, and the width of a sold stream.
SELECT a.contract, jsonb_agg(jsonb_build_object('document', convert_from(r.document, 'UTF8'),
        'active_from_ms', medusa.to_ms(v.activated_at)) ORDER BY a.number) AS revisions,
    medusa.to_ms(medusa_market.ends_at(a.contract)) AS ends_at_ms, b.period, b.from_ms, b.number,
    s.width_us, medusa.to_ms(clock_timestamp()) AS clock_ms
FROM medusa_market.contract_agreement AS a
JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
LEFT JOIN medusa.stream AS s ON s.name = r.stream
CROSS JOIN medusa.home AS h
LEFT JOIN medusa_market.contract_activation AS v ON v.revision = a.revision
LEFT JOIN medusa_market.billing_position AS b ON b.contract = a.contract
WHERE (r.kind = 'content' AND s.name IS NOT NULL OR r.kind = 'movement')
    AND h.participant IN (r.payer, r.provider) AND b.has_ended IS NOT TRUE
GROUP BY a.contract, b.period, b.from_ms, b.number, s.width_us
HAVING bool_or(v.revision IS NOT NULL)
    AND bool_or(r.kind = 'content' OR r.reference IS NOT NULL OR r.penalty > 0)
ORDER BY a.contract;
