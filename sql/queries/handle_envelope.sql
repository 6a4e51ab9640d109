-- A verified envelope has been handled; false if it was before.
SELECT medusa.handle_envelope(:envelope_id)
