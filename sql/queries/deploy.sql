-- Bring a network's streams, plan, fragments and assignments in; the same again is nothing.
SELECT medusa.deploy(CAST(:request AS jsonb));
