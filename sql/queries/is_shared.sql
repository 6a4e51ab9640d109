-- Whether the holder of a recipient's token may read a stream now.
SELECT medusa_market.is_shared(:token_id, :stream) AS is_shared;
