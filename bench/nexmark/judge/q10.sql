SELECT auction, bidder, price, ts_us, extra,
       strftime(make_timestamp(ts_us), '%Y-%m-%d') AS day, strftime(make_timestamp(ts_us), '%H:%M') AS minute
FROM bid
