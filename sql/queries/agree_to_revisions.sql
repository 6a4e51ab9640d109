-- Agree to follow the revisions of a partner's line.
SELECT medusa.agree_to_revisions(CAST(:request AS jsonb));
