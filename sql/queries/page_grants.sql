-- Which partners and recipients may read a stream, and why.
SELECT g.partner AS name, g.reason, g.contract, g.granted_by, medusa.to_ms(g.since) AS since_ms
FROM medusa_api.stream_grants AS g WHERE g.stream = :stream
UNION ALL
SELECT r.recipient, 'Delta Sharing: ' || r.reason, NULL, r.granted_by, medusa.to_ms(r.granted_at)
FROM medusa.recipient_grant AS r WHERE r.stream = :stream
ORDER BY 1, 2, 3 LIMIT 200;
