-- Wait until no other session holds this lock, and hold it until this session ends.
SELECT pg_advisory_lock(:key);
