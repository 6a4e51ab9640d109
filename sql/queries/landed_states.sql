-- Of several streams the last batch that landed under a query id, and the state that it left.
SELECT w.stream, b.batch_id, b.source_state
FROM unnest(CAST(:streams AS text[])) AS w (stream)
CROSS JOIN LATERAL (
    SELECT l.batch_id, l.source_state FROM medusa.landed_batch AS l
    WHERE l.stream = w.stream AND l.query_id = :query_id
    ORDER BY l.batch_id DESC LIMIT 1
) AS b;
