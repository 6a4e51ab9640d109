-- Write down that a home has these files, with their hashes, and not the ones that are gone.
WITH gone AS (DELETE FROM medusa.schema_file AS f WHERE f.path = ANY (CAST(:gone AS text[])))
INSERT INTO medusa.schema_file (path, sha256)
SELECT f.path, f.sha256
FROM unnest(CAST(:names AS text[]), CAST(:hashes AS text[])) AS f (path, sha256)
ON CONFLICT (path) DO UPDATE SET sha256 = excluded.sha256, applied_at = clock_timestamp();
