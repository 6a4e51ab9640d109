-- What this home has found of buckets that begin in a range, of the moves of a contract.
SELECT s.number, s.stream, s.from_us, s.to_us, s.outcome, s.stated, s.recomputed, s.reason, s.version
FROM medusa_api.samples AS s
WHERE s.contract = :contract AND s.from_us >= :from_us AND s.from_us < :to_us
ORDER BY s.number, s.stream, s.from_us;
