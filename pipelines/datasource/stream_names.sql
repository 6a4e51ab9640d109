-- The streams of this home by name, to suggest one.
SELECT name FROM medusa.stream ORDER BY name;
