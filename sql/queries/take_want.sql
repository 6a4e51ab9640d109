-- A partner lacks what was agreed from a number on; it is told again.
SELECT medusa.take_want(:envelope_id, :contract, :number)
