SELECT day_us, category, sum(price)::DOUBLE / count(*) AS average, count(*) AS auctions
FROM (
    SELECT a.id, a.category, max(b.price) AS price,
           (a.ts_us // 60000000 * 60000000 + 119999999) // 86400000000 * 86400000000 AS day_us
    FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.ts_us BETWEEN a.ts_us AND a.expires_us
    GROUP BY a.id, a.category, a.ts_us
)
GROUP BY day_us, category
