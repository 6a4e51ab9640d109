-- A partner's inbox took nothing, and why: it is left alone for a while.
SELECT medusa_market.pause_delivery(:partner, :problem, :jitter)
