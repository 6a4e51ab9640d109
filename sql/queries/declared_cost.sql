-- What load costs this participant as its owner declared it last, if ever.
SELECT number, kind, capacity, scale, points, threshold, currency
FROM medusa_market.cost_function ORDER BY number DESC LIMIT 1;
