-- Which recipient may read which stream of this home through Delta Sharing, and why.
SELECT stream, recipient, reason FROM medusa.recipient_grant ORDER BY stream, recipient, reason;
