SELECT auction, bidder, price, ts_us, extra FROM bid
