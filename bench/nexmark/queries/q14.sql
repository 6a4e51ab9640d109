-- Prices in another currency, the part of the day, and the letters c of a text.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
       CASE WHEN hour(timestamp_micros(ts_us)) BETWEEN 8 AND 18 THEN 'day'
            WHEN hour(timestamp_micros(ts_us)) <= 6 OR hour(timestamp_micros(ts_us)) >= 20 THEN 'night'
            ELSE 'other' END AS part_of_day,
       ts_us, extra, length(extra) - length(replace(extra, 'c', '')) AS letters_c
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
