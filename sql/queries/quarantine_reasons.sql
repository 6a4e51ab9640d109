-- Why records are in quarantine, by stream that lacks them and reason, the most frequent first, so many
-- of them.
SELECT s.stream, q.reason, count(*) AS records
FROM medusa.quarantine AS q, LATERAL (SELECT q.stream UNION SELECT unnest(q.outputs)) AS s (stream)
GROUP BY s.stream, q.reason
ORDER BY count(*) DESC, s.stream, q.reason COLLATE "C" LIMIT :limit;
