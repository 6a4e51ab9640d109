-- A verified envelope has been handled; false if it was before.
SELECT medusa_market.handle_envelope(:envelope_id)
