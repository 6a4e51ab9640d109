-- A shared stream at its newest version; nothing if it is not shared with the holder of the token.
SELECT medusa.shared_table(:token_id, :stream) AS found;
