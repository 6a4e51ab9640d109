-- A verified envelope's offer waits for an answer from now on; its number.
SELECT medusa.take_offer(:envelope_id)
