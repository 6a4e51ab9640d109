-- End offers and agreed moves whose time has passed; how many.
SELECT medusa_market.expire_market()
