-- Keep the final rows that tentative ones are about to displace.
INSERT INTO {before} (target, row_text)
SELECT %(target)s, (t.*)::text FROM {table} AS t
WHERE t.bucket < %(through)s AND ({key_of_t}) IN (SELECT {key} FROM pg_temp.{staged});
