-- The statements that drop functions which no file defines, and of those whose file has changed the
-- ones on which nothing depends: they may come back with other arguments or another result.
SELECT 'DROP FUNCTION ' || CAST(CAST(p.oid AS regprocedure) AS text)
FROM pg_proc AS p
JOIN pg_namespace AS n ON n.oid = p.pronamespace
CROSS JOIN LATERAL (SELECT n.nspname || '.' || p.proname AS name) AS f
WHERE n.nspname IN ('medusa', 'medusa_market', 'medusa_api')
    AND (f.name <> ALL (CAST(:defined AS text[]))
        OR f.name = ANY (CAST(:changed AS text[])) AND NOT EXISTS (
            SELECT FROM pg_depend AS d
            WHERE d.refclassid = CAST('pg_proc' AS regclass) AND d.refobjid = p.oid))
ORDER BY 1;
