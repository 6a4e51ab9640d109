-- The notices that end contracts, the next end first, and who gave them.
SELECT n.contract, n.given_by, medusa.to_ms(n.ends_at) AS ends_ms
FROM medusa_api.contract_notices AS n WHERE n.ends_at > clock_timestamp() ORDER BY n.ends_at LIMIT 200;
