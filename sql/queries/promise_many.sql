-- Several sources promise that no later record lies before their boundaries.
SELECT medusa.promise_many(CAST(:requests AS jsonb));
