-- The last batch that landed under a query id, and the state that it left.
SELECT batch_id, source_state FROM medusa.landed_batch
WHERE stream = :stream AND query_id = :query_id ORDER BY batch_id DESC LIMIT 1;
