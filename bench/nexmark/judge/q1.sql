SELECT auction, bidder, CAST(908 * price AS DECIMAL(23, 3)) / 1000 AS price, ts_us, extra FROM bid
