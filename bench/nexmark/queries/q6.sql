-- The average closing price of a seller's last ten auctions, at the close of each auction of a day. As in
-- q4, an auction is open for less than a minute, and it is counted on the day on which its window ends.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE SOURCE auction (ts_us BIGINT, id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT,
    expires_us BIGINT, seller BIGINT, category BIGINT) WITH (time = 'ts_us');

CREATE VIEW bids_in_time AS
SELECT a.id, a.seller, a.ts_us AS opened_us, a.expires_us, b.price
FROM auction AS a
JOIN bid AS b ON b.auction = a.id AND b.stime BETWEEN a.stime AND a.stime + INTERVAL '1' MINUTE
WHERE b.ts_us <= a.expires_us;

CREATE VIEW closed AS
SELECT id, seller, expires_us, price
FROM (
    SELECT window_start, id, seller, opened_us, expires_us, max(price) AS price
    FROM HOP(TABLE bids_in_time, INTERVAL '1' MINUTE, INTERVAL '2' MINUTES)
    GROUP BY window_start, id, seller, opened_us, expires_us
)
WHERE unix_micros(window_start) = opened_us - opened_us % 60000000;

CREATE VIEW numbered AS
SELECT id, seller, expires_us, price, place
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, seller ORDER BY expires_us, id) AS place
    FROM TUMBLE(TABLE closed, INTERVAL '1' DAY)
);

CREATE VIEW last_ten AS
SELECT a.seller, a.id, a.expires_us, b.price
FROM numbered AS a
JOIN numbered AS b ON b.seller = a.seller AND b.stime BETWEEN a.stime AND a.stime
WHERE b.place > a.place - 10 AND b.place <= a.place;

CREATE STREAM result AS
SELECT seller, id, expires_us, avg(price) AS average, count(*) AS auctions
FROM TUMBLE(TABLE last_ten, INTERVAL '1' DAY)
GROUP BY window_start, seller, id, expires_us;
