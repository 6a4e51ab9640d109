-- Prices in another currency.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, ts_us, extra FROM bid;
