-- Which partner may read which stream of this home.
SELECT stream, partner FROM medusa.stream_grant ORDER BY stream, partner;
