SELECT a.id, a.item_name, a.initial_bid, a.reserve, a.ts_us AS opened_us, a.expires_us, a.seller, a.category,
       b.bidder, b.price, b.ts_us AS bid_us
FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.ts_us BETWEEN a.ts_us AND a.expires_us
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts_us) = 1
