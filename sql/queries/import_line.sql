-- Bring a partner's news into this home; false if it was brought before.
SELECT medusa.import_line(CAST(:request AS jsonb)) AS is_new;
