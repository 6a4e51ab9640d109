-- The average closing price of each category, day by day. An auction is open for less than a minute, so
-- the first of the windows that it meets has all of its bids, and it is counted when that has ended.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE SOURCE auction (ts_us BIGINT, id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT,
    expires_us BIGINT, seller BIGINT, category BIGINT) WITH (time = 'ts_us');

CREATE VIEW bids_in_time AS
SELECT a.id, a.category, a.ts_us AS opened_us, b.price
FROM auction AS a
JOIN bid AS b ON b.auction = a.id AND b.stime BETWEEN a.stime AND a.stime + INTERVAL '1' MINUTE
WHERE b.ts_us <= a.expires_us;

CREATE VIEW closed AS
SELECT category, price
FROM (
    SELECT window_start, id, category, opened_us, max(price) AS price
    FROM HOP(TABLE bids_in_time, INTERVAL '1' MINUTE, INTERVAL '2' MINUTES)
    GROUP BY window_start, id, category, opened_us
)
WHERE unix_micros(window_start) = opened_us - opened_us % 60000000;

CREATE STREAM result AS
SELECT unix_micros(window_start) AS day_us, category, avg(price) AS average, count(*) AS auctions
FROM TUMBLE(TABLE closed, INTERVAL '1' DAY)
GROUP BY window_start, category;
