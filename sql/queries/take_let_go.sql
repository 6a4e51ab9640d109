-- The payer will not sign what this home took back.
SELECT medusa_market.take_let_go(:envelope_id, :contract, :revision, :proposal)
