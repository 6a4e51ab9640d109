-- The versions of all SQL files together that a home has had, the newest last.
SELECT digest FROM medusa.schema_version ORDER BY number;
