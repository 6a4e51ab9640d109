-- The moves under a contract that were released and had not ended before a time. What was lost counts
-- where the provider finds that it had not computed it; the payer says so by itself.
SELECT m.number, m.fragment, m.price, m.from_us, m.to_us,
    CASE WHEN m.is_given OR m.is_own_loss THEN m.lost_us END AS lost_us
FROM medusa_market.move AS m
WHERE m.contract = :contract AND m.from_us IS NOT NULL AND m.price IS NOT NULL
    AND (m.to_us IS NULL OR greatest(m.to_us, m.lost_us + 1) > :from_us)
ORDER BY m.number;
