SELECT auction, bidder, price, channel, date_us, extra, place
FROM (
    SELECT auction, bidder, price, channel, ts_us AS date_us, extra,
           row_number() OVER (PARTITION BY auction, ts_us // 86400000000 ORDER BY price DESC, ts_us) AS place
    FROM bid
)
WHERE place <= 10
