-- The lines of this home that a partner may read, each with the mark of its news.
SELECT medusa.published_progress(:partner) AS lines;
