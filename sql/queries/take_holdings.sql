-- What differs from what a partner holds is told it or asked for.
SELECT medusa_market.take_holdings(:envelope_id, CAST(:differing AS jsonb))
