-- Who sells in category 10 and lives in one of three states. A seller has registered at most a day
-- before the auction: a join has a bound.
CREATE SOURCE auction (ts_us BIGINT, id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT,
    expires_us BIGINT, seller BIGINT, category BIGINT) WITH (time = 'ts_us');

CREATE SOURCE person (ts_us BIGINT, id BIGINT, name STRING, city STRING, state STRING) WITH (time = 'ts_us');

CREATE STREAM result AS
WITH chosen AS (SELECT id, seller FROM auction WHERE category = 10),
     near AS (SELECT id, name, city, state FROM person WHERE state IN ('OR', 'ID', 'CA'))
SELECT p.name, p.city, p.state, a.id
FROM chosen AS a
JOIN near AS p ON a.seller = p.id AND p.stime BETWEEN a.stime - INTERVAL '1' DAY AND a.stime;
