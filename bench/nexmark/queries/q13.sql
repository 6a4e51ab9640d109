-- Bids with a value from a table, by a key made of the auction.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE SOURCE side (ts_us BIGINT, key BIGINT, value STRING) WITH (time = 'ts_us');

CREATE VIEW keyed AS
SELECT auction, bidder, price, ts_us AS date_us, auction % 100 AS key FROM bid;

CREATE STREAM result AS
SELECT b.auction, b.bidder, b.price, b.date_us, s.value
FROM keyed AS b
JOIN side FOR SYSTEM_TIME AS OF b.stime AS s
    ON b.key = s.key AND s.stime >= b.stime - INTERVAL '1' DAY;
