-- Where rows wait to be brought in by their key; gone with the transaction.
CREATE TEMPORARY TABLE {staged} ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA;
