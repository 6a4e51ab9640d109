-- Write down what was decided, offers and answers, and send it, all or nothing.
SELECT medusa.apply_round(CAST(:request AS jsonb))
