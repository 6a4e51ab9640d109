-- An envelope counts for nothing, and why; false if it has been handled.
SELECT medusa.refuse_envelope(:envelope_id, :reason)
