-- What differs from what a partner holds is told it or asked for.
SELECT medusa.take_holdings(:envelope_id, CAST(:differing AS jsonb))
