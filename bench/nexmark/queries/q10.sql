-- Every bid with its day and its minute, by which files would be named.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
SELECT auction, bidder, price, ts_us, extra,
       date_format(timestamp_micros(ts_us), 'yyyy-MM-dd') AS day,
       date_format(timestamp_micros(ts_us), 'HH:mm') AS minute
FROM bid;
