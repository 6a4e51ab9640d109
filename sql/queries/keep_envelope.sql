-- An envelope waits for something, and for what.
SELECT medusa.keep_envelope(:envelope_id, :reason)
