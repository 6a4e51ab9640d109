-- Write down what was decided, offers and answers, and send it, all or nothing.
SELECT medusa_market.apply_round(CAST(:request AS jsonb))
