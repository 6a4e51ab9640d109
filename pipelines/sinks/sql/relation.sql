-- A relation as it stands: its kind, its persistence, and whether it has rules of its own.
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s;
