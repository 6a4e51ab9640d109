-- Proposals whose time has passed are open no more; how many.
SELECT medusa_market.expire_proposals()
