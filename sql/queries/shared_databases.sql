-- The databases of the server that are nobody's home and that the asking login may enter all the same.
SELECT d.datname FROM pg_database AS d
WHERE d.datname IN ('postgres', 'template1') AND d.datname <> current_database()
    AND has_database_privilege(d.oid, 'CONNECT')
ORDER BY d.datname;
