-- Bids and prices of each auction in a day.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
SELECT auction, date_format(window_start, 'yyyy-MM-dd') AS day, count(*) AS bids,
       count(*) FILTER (WHERE price < 10000) AS low,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
       count(*) FILTER (WHERE price >= 1000000) AS high,
       min(price) AS lowest, max(price) AS highest, sum(price) DIV count(*) AS mean, sum(price) AS total
FROM TUMBLE(TABLE bid, INTERVAL '1' DAY)
GROUP BY window_start, auction;
