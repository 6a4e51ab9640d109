SELECT DISTINCT p.id, p.name, make_timestamptz(p.ts_us // 10000000 * 10000000) AS begins
FROM person AS p JOIN auction AS a ON a.seller = p.id AND a.ts_us // 10000000 = p.ts_us // 10000000
