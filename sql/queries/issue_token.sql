-- Store the hash of a token for a partner whose signature has been verified; false: too many.
SELECT medusa_market.issue_token(
    :partner, :public_key, :nonce, :keep_ms, :token_hash, :lifetime_ms) AS issued;
