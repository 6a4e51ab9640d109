-- Every version that a participant ever wrote of a stream: which commit wrote it, when, why, how
-- long its step took (the sum of its phases), and how many rows each non-empty bucket has.
SELECT c.commit_id, (extract(epoch FROM c.committed_at) * 1000)::float8 AS committed_ms,
    c.cause::text AS cause, s.stability::text AS stability, s.from_us, s.to_us, s.missing,
    s.bucket_us, s.bucket_rows,
    (SELECT coalesce(sum(p.value::float8), 0)
     FROM jsonb_each_text(m.phases_ms) AS p)::float8 AS step_ms
FROM medusa.segment AS s
JOIN medusa.stream_producer AS p USING (line_id)
JOIN medusa.commit AS c ON c.commit_id = s.commit_id
LEFT JOIN medusa.step_metrics AS m ON m.commit_id = c.commit_id
WHERE p.stream = %(stream)s AND p.participant = %(participant)s
ORDER BY c.commit_id, s.from_us;
