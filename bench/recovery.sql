-- The commits that computed something, behind one that is known: when each was made.
SELECT c.commit_id, extract(epoch FROM c.committed_at)::float8 AS committed_s
FROM medusa.commit AS c JOIN medusa.step_metrics AS m USING (commit_id)
WHERE c.participant = %(participant)s AND m.records_in > 0 AND c.commit_id > %(after)s ORDER BY c.commit_id;
