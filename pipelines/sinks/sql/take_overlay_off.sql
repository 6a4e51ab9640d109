-- Put everything back as it was before tentative rows were shown.
DELETE FROM {table} WHERE bucket >= %(through)s;
INSERT INTO {table} ({columns})
SELECT {restored}
FROM (SELECT b.row_text::{table} AS put_back FROM {before} AS b WHERE b.target = %(target)s) AS r;
DELETE FROM {before} WHERE target = %(target)s;
