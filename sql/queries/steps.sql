-- Commits in the order in which they were made, the last so many.
SELECT * FROM (
    SELECT c.commit_id, c.key, c.fragment, c.plan, c.cause::text AS cause, c.from_us, c.to_us,
        medusa.to_ms(c.committed_at) AS committed_at_ms, c.versions, m.records_in, m.records_out,
        m.spark_jobs, m.phases_ms
    FROM medusa.commit AS c JOIN medusa.step_metrics AS m ON m.commit_id = c.commit_id
    ORDER BY c.commit_id DESC LIMIT :limit
) AS last
ORDER BY commit_id;
