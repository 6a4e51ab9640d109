-- The ten highest bids of each auction, day by day.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE VIEW bids AS
SELECT auction, bidder, price, channel, ts_us AS date_us, extra FROM bid;

CREATE STREAM result AS
SELECT auction, bidder, price, channel, date_us, extra, place
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, auction ORDER BY price DESC) AS place
    FROM TUMBLE(TABLE bids, INTERVAL '1' DAY)
)
WHERE place <= 10;
