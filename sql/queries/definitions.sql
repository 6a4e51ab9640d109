-- All definitions, of buyers and of this home, by buyer and name.
SELECT d.name, d.contract, d.buyer, d.state, d.reason, d.stream, d.cpu_s
FROM medusa_api.definitions AS d ORDER BY d.buyer, d.name;
