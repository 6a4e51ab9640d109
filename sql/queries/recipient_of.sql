-- The recipient of a token and the token's number; none if it is over, revoked or unknown.
SELECT medusa_market.recipient_of(:token_hash) AS holder;
