WITH windows AS (
    SELECT ts_us // 2000000 * 2 - 2 * step AS begins, auction FROM bid, range(5) AS steps(step)
), counts AS (
    SELECT begins, auction, count(*) AS bids FROM windows GROUP BY ALL
)
SELECT begins, auction, bids FROM counts
QUALIFY bids = max(bids) OVER (PARTITION BY begins)
