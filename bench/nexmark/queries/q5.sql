-- The auctions with the most bids in the last ten seconds, every two seconds.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE VIEW counts AS
SELECT unix_seconds(window_start) AS begins, auction, count(*) AS bids
FROM HOP(TABLE bid, INTERVAL '2' SECONDS, INTERVAL '10' SECONDS)
GROUP BY window_start, auction;

CREATE VIEW most AS
SELECT begins, max(bids) AS bids
FROM TUMBLE(TABLE counts, INTERVAL '2' SECONDS)
GROUP BY window_start, begins;

CREATE STREAM result AS
SELECT c.begins, c.auction, c.bids
FROM counts AS c
JOIN most AS m ON c.begins = m.begins AND c.bids = m.bids AND m.stime BETWEEN c.stime AND c.stime;
