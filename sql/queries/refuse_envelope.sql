-- An envelope counts for nothing, and why; false if it has been handled.
SELECT medusa_market.refuse_envelope(:envelope_id, :reason)
