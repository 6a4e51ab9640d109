-- An envelope is its sender's, and waits for whoever handles its kind; false if it was before.
SELECT medusa_market.verify_envelope(:envelope_id)
