-- The columns of a table: name, type, whether NULL is refused, whether it fills itself.
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.atthasdef OR a.attidentity <> '' AS has_default, a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
