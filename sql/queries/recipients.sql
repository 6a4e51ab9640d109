-- The recipients of this home, what they may read and what they used.
SELECT recipient, tokens, expires_at, streams, requests, rows, bytes, last_at
FROM medusa_api.recipients ORDER BY recipient;
