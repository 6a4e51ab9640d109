-- Why records of a stream, or records that it lacks, are in quarantine: by reason, with the newest of
-- each, and how many are in their stream after all.
SELECT q.reason, count(*) AS records, count(r.quarantine_id) AS repaired,
    medusa.to_ms(max(q.quarantined_at)) AS newest_ms,
    (array_agg(q.origin ORDER BY q.quarantine_id DESC))[1] AS origin,
    (array_agg(q.field ORDER BY q.quarantine_id DESC))[1] AS field,
    (array_agg(left(q.content, 200) ORDER BY q.quarantine_id DESC))[1] AS content
FROM medusa.quarantine AS q
LEFT JOIN medusa.quarantine_retry AS r ON r.quarantine_id = q.quarantine_id
WHERE q.stream = :stream OR :stream = ANY (q.outputs)
GROUP BY q.reason ORDER BY count(*) DESC, q.reason LIMIT 20;
