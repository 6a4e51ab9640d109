-- The segments of a shared stream that became live or were superseded between two versions.
SELECT medusa.shared_changes(:token_id, :stream, :after, :until) AS segments;
