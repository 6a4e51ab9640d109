-- The statements that drop the triggers of a home's tables.
SELECT format('DROP TRIGGER %I ON %s', t.tgname, CAST(t.tgrelid AS regclass))
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE NOT t.tgisinternal AND c.relkind = 'r' AND n.nspname IN ('medusa', 'medusa_market')
ORDER BY 1;
