-- Replace final buckets of named ranges of a source, and no other bucket.
SELECT medusa.revise(CAST(:request AS jsonb)) AS revised;
