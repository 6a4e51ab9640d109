-- Take back what a line has from a bucket on, with all that was computed from it.
SELECT medusa.recall(CAST(:request AS jsonb)) AS recalled;
