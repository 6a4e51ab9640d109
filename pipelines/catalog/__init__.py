"""A home's catalog, in Postgres and in memory; databases and roles."""
