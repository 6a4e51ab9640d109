-- The key that a partner's assertions are verified with; none if it is no partner.
SELECT medusa_market.partner_key(:partner) AS public_key;
