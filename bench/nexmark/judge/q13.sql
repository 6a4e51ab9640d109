SELECT b.auction, b.bidder, b.price, b.ts_us AS date_us, s.value
FROM bid AS b JOIN side AS s ON b.auction % 100 = s.key
