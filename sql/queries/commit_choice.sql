-- Make what was chosen among a stream's producers durable: see medusa.commit_choice.
SELECT medusa.commit_choice(CAST(:request AS jsonb));
