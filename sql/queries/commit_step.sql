-- One step's results in one piece, in one round trip.
SELECT medusa.commit_step(CAST(:request AS jsonb)) AS answer;
