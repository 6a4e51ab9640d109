-- An envelope waits for something, and for what.
SELECT medusa_market.keep_envelope(:envelope_id, :reason)
