-- Write down that a home has these migrations, with their hashes.
INSERT INTO medusa.schema_migration (name, sha256)
SELECT m.name, m.sha256
FROM unnest(CAST(:names AS text[]), CAST(:hashes AS text[])) AS m (name, sha256);
