-- Revise a source by its late records, and by nothing else.
SELECT medusa.admit_late(CAST(:request AS jsonb)) AS revised;
