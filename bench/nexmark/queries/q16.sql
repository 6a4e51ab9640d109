-- The same for each channel, and the minute of its last bid.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
SELECT channel, date_format(window_start, 'yyyy-MM-dd') AS day,
       max(date_format(timestamp_micros(ts_us), 'HH:mm')) AS minute, count(*) AS bids,
       count(*) FILTER (WHERE price < 10000) AS low,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
       count(*) FILTER (WHERE price >= 1000000) AS high,
       count(DISTINCT bidder) AS bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high_bidders,
       count(DISTINCT auction) AS auctions,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
FROM TUMBLE(TABLE bid, INTERVAL '1' DAY)
GROUP BY window_start, channel;
