"""The catalog in Postgres."""
