-- The functions of a home by schema and name; one that takes two lists of arguments comes twice.
SELECT n.nspname || '.' || p.proname
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname IN ('medusa', 'medusa_market', 'medusa_api');
