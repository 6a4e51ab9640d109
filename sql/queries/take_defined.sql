-- A seller states that a definition of this home runs, is refused or has ended.
SELECT medusa_market.take_defined(:envelope_id, :contract, :definition, :state, :reason);
