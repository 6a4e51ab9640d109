-- Several steps' results, each in one piece, in one round trip.
SELECT medusa.commit_steps(CAST(:requests AS jsonb)) AS answers;
