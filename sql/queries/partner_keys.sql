-- The keys that a partner's assertions are verified with, the newest first.
SELECT medusa_market.partner_keys(:partner) AS public_keys;
