SELECT auction, strftime(make_timestamp(ts_us), '%Y-%m-%d') AS day, count(*) AS bids,
       count(*) FILTER (WHERE price < 10000) AS low,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
       count(*) FILTER (WHERE price >= 1000000) AS high,
       min(price) AS lowest, max(price) AS highest, CAST(sum(price) // count(*) AS BIGINT) AS mean,
       CAST(sum(price) AS BIGINT) AS total
FROM bid GROUP BY auction, day
