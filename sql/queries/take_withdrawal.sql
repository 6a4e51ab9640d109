-- A partner takes back what it proposed; what came of it.
SELECT medusa_market.take_withdrawal(:envelope_id, :contract, :revision, :proposal)
