SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.ts_us, b.extra, a.item_name, a.initial_bid,
       a.reserve, a.ts_us AS opened_us, a.expires_us, a.seller, a.category
FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10
