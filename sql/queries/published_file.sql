-- The file with a hash, if it holds rows of a stream that a partner may read; else nothing.
SELECT medusa.published_file(:partner, :sha256) AS file;
