-- Write down the version of all SQL files together that a home has now.
INSERT INTO medusa.schema_version (digest) VALUES (:digest);
