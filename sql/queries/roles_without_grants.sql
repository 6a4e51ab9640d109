-- Roles of a home that may not use its schema: they were made again after the home was migrated.
SELECT k.kind
FROM unnest(CAST(:kinds AS text[])) AS k (kind)
JOIN pg_roles AS r ON r.rolname = left(current_database() || '_' || k.kind, 63)
WHERE NOT has_schema_privilege(r.oid, 'medusa', 'USAGE')
ORDER BY k.kind;
