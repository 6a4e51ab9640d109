-- Why records are in quarantine, by stream and reason, the most frequent first, so many of them.
SELECT q.stream, q.reason, count(*) AS records FROM medusa.quarantine AS q
GROUP BY q.stream, q.reason
ORDER BY count(*) DESC, q.stream, q.reason COLLATE "C" LIMIT :limit;
