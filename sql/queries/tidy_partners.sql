-- Housekeeping of what partners send and are sent: how much went.
SELECT medusa_market.tidy_partners()
