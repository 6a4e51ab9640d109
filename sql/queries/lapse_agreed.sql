-- What was agreed in a round comes to nothing.
SELECT medusa_market.lapse_agreed(:agreed_id);
