-- A partner tells one hash of what is agreed with it; what came of it.
SELECT medusa_market.take_standing(:envelope_id, CAST(:incarnation AS uuid), :digest)
