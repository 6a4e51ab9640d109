-- The files of functions, triggers, views and grants that a home has, with their hashes.
SELECT path, sha256 FROM medusa.schema_file;
