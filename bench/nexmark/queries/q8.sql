-- Persons who registered and opened auctions within the same ten seconds.
CREATE SOURCE auction (ts_us BIGINT, id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT,
    expires_us BIGINT, seller BIGINT, category BIGINT) WITH (time = 'ts_us');

CREATE SOURCE person (ts_us BIGINT, id BIGINT, name STRING, city STRING, state STRING) WITH (time = 'ts_us');

CREATE VIEW registered AS
SELECT window_start AS begins, id, name, count(*) AS times
FROM TUMBLE(TABLE person, INTERVAL '10' SECONDS)
GROUP BY window_start, id, name;

CREATE VIEW opened AS
SELECT window_start AS begins, seller, count(*) AS auctions
FROM TUMBLE(TABLE auction, INTERVAL '10' SECONDS)
GROUP BY window_start, seller;

CREATE STREAM result AS
SELECT r.id, r.name, r.begins
FROM registered AS r
JOIN opened AS o ON r.id = o.seller AND o.stime BETWEEN r.stime AND r.stime;
