-- The query ids under which something of a stream has landed.
SELECT DISTINCT query_id FROM medusa.landed_batch WHERE stream = :stream ORDER BY query_id;
