-- What is agreed with a partner, of the contracts in a range of names.
SELECT h.contract, h.number, h.revision, h.ends_at_ms
FROM medusa_market.holdings_with(:partner) AS h
WHERE (CAST(:after AS text) IS NULL OR h.contract COLLATE "C" > :after)
    AND (CAST(:until AS text) IS NULL OR h.contract COLLATE "C" <= :until)
