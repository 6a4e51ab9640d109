-- A provider does not take what is agreed here; what came of it.
SELECT medusa_market.take_refusal(:envelope_id, :contract, :number, :revision, :newest)
