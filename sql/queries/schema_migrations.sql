-- The numbered migrations that a home has, with their hashes.
SELECT name, sha256 FROM medusa.schema_migration;
