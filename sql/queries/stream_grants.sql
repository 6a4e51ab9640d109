-- Which partner may read which stream of this home, and why.
SELECT stream, partner, reason FROM medusa.stream_grant ORDER BY stream, partner, reason;
