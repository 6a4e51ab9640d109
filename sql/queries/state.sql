-- Keep what this home has signed of a statement; false if it was not to.
SELECT medusa_market.state(:statement, :signature, :public_key)
