-- Which of these paths are files that the catalog knows.
SELECT path FROM medusa.file WHERE path = ANY (CAST(:paths AS text[]));
