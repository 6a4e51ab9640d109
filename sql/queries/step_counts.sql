-- How many steps were made, by cause.
SELECT c.cause::text AS cause, count(*) AS steps
FROM medusa.commit AS c JOIN medusa.step_metrics AS m ON m.commit_id = c.commit_id
GROUP BY c.cause ORDER BY c.cause;
