-- The streams that the holder of a recipient's token may read.
SELECT medusa_market.shared_names(:token_id) AS names;
