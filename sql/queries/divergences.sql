-- Where producers of a stream, if given, disagree and nothing has settled it, oldest first.
SELECT d.*, medusa.to_ms(d.noticed_at) AS noticed_at_ms FROM medusa_api.divergences AS d
WHERE CAST(:stream AS text) IS NULL OR d.stream = :stream
ORDER BY d.divergence_id;
