-- Tell each partner one hash of what is agreed with it; how many.
SELECT medusa_market.send_statuses()
