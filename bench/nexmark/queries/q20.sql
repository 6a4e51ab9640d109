-- Bids with the auctions of category 10 that they are for. An auction is open for less than a day.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE SOURCE auction (ts_us BIGINT, id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT,
    expires_us BIGINT, seller BIGINT, category BIGINT) WITH (time = 'ts_us');

CREATE STREAM result AS
WITH chosen AS (
    SELECT id, item_name, initial_bid, reserve, expires_us, seller, category, ts_us AS opened_us
    FROM auction WHERE category = 10
)
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.ts_us, b.extra, a.item_name, a.initial_bid,
       a.reserve, a.opened_us, a.expires_us, a.seller, a.category
FROM bid AS b
JOIN chosen AS a ON b.auction = a.id AND a.stime BETWEEN b.stime - INTERVAL '1' DAY AND b.stime;
