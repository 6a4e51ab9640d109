-- Log a landed file once; false if the batch had landed before.
SELECT medusa.land(CAST(:request AS jsonb)) AS is_new;
