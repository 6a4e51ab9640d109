-- Wait until no other session migrates this home, and keep others out until this one ends.
SELECT pg_advisory_lock(:key);
