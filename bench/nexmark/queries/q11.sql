-- Bids of each person's session, which lasts less than an hour.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
SELECT bidder, count(*) AS bids, unix_micros(window_start) AS start_us, unix_micros(window_end) AS end_us
FROM SESSION(TABLE bid PARTITION BY bidder, INTERVAL '10' SECOND, INTERVAL '1' HOUR)
GROUP BY window_start, window_end, bidder;
