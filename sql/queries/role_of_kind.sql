-- The role of a kind that this home has, other than the one that asks; a name has 63 characters.
SELECT r.rolname FROM pg_roles AS r
WHERE r.rolname = left(current_database() || '_' || :kind, 63)
    AND r.rolname <> current_user;
