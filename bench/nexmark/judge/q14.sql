SELECT auction, bidder, CAST(908 * price AS DECIMAL(23, 3)) / 1000 AS price,
       CASE WHEN hour(make_timestamp(ts_us)) IN (7, 19) THEN 'other'
            WHEN hour(make_timestamp(ts_us)) BETWEEN 7 AND 19 THEN 'day' ELSE 'night' END AS part_of_day,
       ts_us, extra, len(string_split(extra, 'c')) - 1 AS letters_c
FROM bid WHERE 908 * price > 1000000000 AND 908 * price < 50000000000
