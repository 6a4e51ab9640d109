-- The partner that holds a token now; none if it is over, revoked or of another key.
SELECT medusa_market.token_holder(:token_hash) AS partner;
