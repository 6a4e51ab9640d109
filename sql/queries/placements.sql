-- Where partitions are placed, for how long they have been, and who holds their leases now.
SELECT p.fragment, p.worker, p.number, p.because,
    CAST(extract(epoch FROM clock_timestamp() - p.placed_at) * 1000 AS bigint) AS placed_ms,
    (SELECT l.holder FROM medusa.lease AS l
     WHERE l.fragment = p.fragment AND l.lane = 'live' AND l.expires_at > clock_timestamp()
     ORDER BY l.expires_at DESC LIMIT 1) AS holder
FROM medusa.placement AS p
ORDER BY p.fragment;
