-- The last version of a shared stream that is not after one, and those that follow it.
SELECT medusa.shared_versions(:token_id, :stream, :after, :until, :versions_max) AS versions;
