SELECT auction, price, bidder, ts_us, extra FROM bid
QUALIFY price = max(price) OVER (PARTITION BY ts_us // 10000000)
