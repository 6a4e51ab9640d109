-- Bring rows in by their key: of several with one key the last counts.
INSERT INTO {table} ({columns})
SELECT DISTINCT ON ({key}) {columns} FROM pg_temp.{staged} ORDER BY {key}, {last_first}
ON CONFLICT ({key}) DO UPDATE SET {sets};
