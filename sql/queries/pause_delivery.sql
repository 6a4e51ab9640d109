-- A partner's inbox took nothing, and why: it is left alone for a while.
SELECT medusa.pause_delivery(:partner, :problem, :jitter)
