-- A partner lacks what was agreed from a number on; it is sent again.
SELECT medusa_market.take_want(:envelope_id, :contract, :number)
