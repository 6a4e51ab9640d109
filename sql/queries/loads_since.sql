-- The samples of load that reach into the last milliseconds before now, part by part.
SELECT s.sample_id, medusa.to_ms(s.ended_at) - s.length_ms AS from_ms,
    medusa.to_ms(s.ended_at) AS to_ms, p.kind, p.fragment, p.partition, p.cause, p.cpu_us
FROM medusa_market.load_sample AS s
    LEFT JOIN medusa_market.load_part AS p ON p.sample_id = s.sample_id
WHERE s.ended_at >
    statement_timestamp() - CAST(:window_ms AS bigint) * interval '1 millisecond'
ORDER BY s.sample_id;
