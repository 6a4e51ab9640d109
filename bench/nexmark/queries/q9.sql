-- The winning bid of each auction. An auction is open for less than a minute, so the first of the windows
-- that it meets has all of its bids.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE SOURCE auction (ts_us BIGINT, id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT,
    expires_us BIGINT, seller BIGINT, category BIGINT) WITH (time = 'ts_us');

CREATE VIEW bids_in_time AS
SELECT a.id, a.item_name, a.initial_bid, a.reserve, a.ts_us AS opened_us, a.expires_us, a.seller, a.category,
       b.bidder, b.price, b.ts_us AS bid_us
FROM auction AS a
JOIN bid AS b ON b.auction = a.id AND b.stime BETWEEN a.stime AND a.stime + INTERVAL '1' MINUTE
WHERE b.ts_us <= a.expires_us;

CREATE STREAM result AS
SELECT id, item_name, initial_bid, reserve, opened_us, expires_us, seller, category, bidder, price, bid_us
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, id ORDER BY price DESC) AS place
    FROM HOP(TABLE bids_in_time, INTERVAL '1' MINUTE, INTERVAL '2' MINUTES)
)
WHERE place = 1 AND unix_micros(window_start) = opened_us - opened_us % 60000000;
