-- The streams of this home that a partner may read.
SELECT medusa.published_streams(:partner) AS streams;
