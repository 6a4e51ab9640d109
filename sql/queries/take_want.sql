-- A partner lacks what was agreed from a number on; it is told again.
SELECT medusa_market.take_want(:envelope_id, :contract, :number)
