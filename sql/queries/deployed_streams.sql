-- The streams of this home by name, also those that nobody writes yet.
SELECT name, kind, width_us, columns, key_columns FROM medusa.stream ORDER BY name;
