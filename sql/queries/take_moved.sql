-- A provider computes the fragment of a move, or does so no more.
SELECT medusa_market.take_moved(:envelope_id, :contract, :number, :state, :reason);
