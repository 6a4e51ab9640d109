-- Note a key of somebody of whom none is known here; whether it is new.
SELECT medusa_market.learn_first_key(:participant, :public_key, :because)
