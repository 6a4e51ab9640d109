-- What is counted of a period, and what has changed of earlier ones since they were stated.
(SELECT b.subject, b.from_us, b.to_us, b.period, b.rows, b.sum_a, b.sum_b, b.gap_us,
    b.stated_rows, b.stated_a, b.stated_b, b.price
FROM medusa_market.billed_range AS b
WHERE b.contract = :contract AND b.period = :period)
UNION ALL
(SELECT b.subject, b.from_us, least(b.to_us, m.to_ms * 1000), b.period, b.rows, b.sum_a, b.sum_b,
    b.gap_us, coalesce(b.stated_rows, 0), coalesce(b.stated_a, 0), coalesce(b.stated_b, 0),
    coalesce(b.price, r.price)
FROM medusa_market.billed_range AS b
LEFT JOIN medusa_market.bill AS m
    ON m.contract = b.contract AND m.period = b.period AND m.cut_us IS NOT NULL
LEFT JOIN medusa_market.contract_revision AS r ON r.revision = m.revision
WHERE b.contract = :contract AND b.subject = '' AND b.period < :period
    AND (b.rows, b.sum_a, b.sum_b) IS DISTINCT FROM (b.stated_rows, b.stated_a, b.stated_b)
    AND b.rows IS DISTINCT FROM coalesce(b.stated_rows, 0)
ORDER BY b.from_us LIMIT :changes_max);
