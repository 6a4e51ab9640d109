-- The statement that drops all views of a home, if it has any.
SELECT 'DROP VIEW ' || string_agg(CAST(CAST(c.oid AS regclass) AS text), ', ')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'v' AND n.nspname IN ('medusa', 'medusa_market', 'medusa_api')
HAVING count(*) > 0;
