-- Log one file with the records of several streams once; false if it had landed before.
SELECT medusa.land_many(CAST(:request AS jsonb)) AS is_new;
