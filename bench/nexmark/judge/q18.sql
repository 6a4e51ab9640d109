SELECT auction, bidder, price, channel, ts_us AS date_us, extra
FROM bid
QUALIFY ts_us = max(ts_us) OVER (PARTITION BY bidder, auction, ts_us // 86400000000)
