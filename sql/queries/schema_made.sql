-- Whether there are tables of a home, and whether they are of the kind that this program migrates.
SELECT to_regclass('medusa.schema_migration') IS NOT NULL AS has_tables,
    to_regclass('medusa.schema_version') IS NOT NULL AS has_versions;
