-- The role of a kind that this home has, other than the one that asks.
SELECT r.rolname FROM pg_roles AS r
WHERE r.rolname = current_database() || '_' || :kind AND r.rolname <> current_user;
