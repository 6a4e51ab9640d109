-- How the sources that land here are fed.
SELECT stream, document FROM medusa.source ORDER BY stream;
