SELECT seller, id, expires_us, sum(price) OVER last_ten::DOUBLE / count(*) OVER last_ten AS average,
       count(*) OVER last_ten AS auctions
FROM (
    SELECT a.id, a.seller, a.expires_us, max(b.price) AS price,
           (a.ts_us // 60000000 * 60000000 + 119999999) // 86400000000 AS day
    FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.ts_us BETWEEN a.ts_us AND a.expires_us
    GROUP BY a.id, a.seller, a.expires_us, a.ts_us
)
WINDOW last_ten AS (PARTITION BY seller, day ORDER BY expires_us, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
