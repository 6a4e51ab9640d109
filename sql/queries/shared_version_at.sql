-- The version of a shared stream at a time of this home's clock, or the first one from then on.
SELECT medusa.shared_version_at(:token_id, :stream, :at_ms, :is_after) AS version;
