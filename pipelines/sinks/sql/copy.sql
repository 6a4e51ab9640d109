-- Rows as text.
COPY {table} ({columns}) FROM STDIN WITH (FORMAT text, ENCODING 'UTF8');
