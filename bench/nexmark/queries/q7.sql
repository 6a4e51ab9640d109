-- The highest bids of each ten seconds.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE VIEW highest AS
SELECT unix_micros(window_start) AS begins, max(price) AS price
FROM TUMBLE(TABLE bid, INTERVAL '10' SECONDS)
GROUP BY window_start;

CREATE STREAM result AS
WITH matched AS (
    SELECT b.auction, b.price, b.bidder, b.ts_us, b.extra, h.begins
    FROM bid AS b
    JOIN highest AS h
        ON b.price = h.price AND h.stime BETWEEN b.stime AND b.stime + INTERVAL '10' SECONDS
)
SELECT auction, price, bidder, ts_us, extra FROM matched WHERE ts_us >= begins;
