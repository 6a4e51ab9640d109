-- A partner ends a contract, or says when this home's notice ends.
SELECT medusa.take_notice(:envelope_id, :contract, :given_by, :ends_at_ms)
