-- A verified envelope's offer waits for an answer from now on; its number.
SELECT medusa_market.take_offer(:envelope_id)
