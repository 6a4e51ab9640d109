-- What differs from what a partner holds is sent to it or requested.
SELECT medusa_market.take_holdings(:envelope_id, CAST(:differing AS jsonb))
