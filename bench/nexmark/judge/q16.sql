SELECT channel, strftime(make_timestamp(ts_us), '%Y-%m-%d') AS day, max(strftime(make_timestamp(ts_us), '%H:%M')) AS minute, count(*) AS bids,
       count(*) FILTER (WHERE price < 10000) AS low,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
       count(*) FILTER (WHERE price >= 1000000) AS high,
       count(DISTINCT bidder) AS bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high_bidders,
       count(DISTINCT auction) AS auctions,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
FROM bid GROUP BY channel, day
