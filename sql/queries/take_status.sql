-- A partner tells one hash of what is agreed with it; what came of it.
SELECT medusa_market.take_status(:envelope_id, CAST(:incarnation AS uuid), :digest)
