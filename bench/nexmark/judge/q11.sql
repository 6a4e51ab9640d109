SELECT bidder, count(*) AS bids, min(ts_us) AS start_us, max(ts_us) + 10000000 AS end_us
FROM (
    SELECT bidder, ts_us, count(*) FILTER (WHERE is_first) OVER (PARTITION BY bidder ORDER BY ts_us) AS number
    FROM (
        SELECT bidder, ts_us,
               coalesce(ts_us - lag(ts_us) OVER (PARTITION BY bidder ORDER BY ts_us) >= 10000000, true) AS is_first
        FROM bid
    )
) GROUP BY bidder, number
