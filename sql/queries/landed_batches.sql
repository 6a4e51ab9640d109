-- What has landed of a stream under a query id: batch id and records.
SELECT batch_id, records FROM medusa.landed_batch
WHERE stream = :stream AND query_id = :query_id
ORDER BY batch_id;
