-- The files with these hashes that hold rows of streams that a partner may read.
SELECT medusa.published_files(:partner, :hashes) AS files;
