-- What keeps buckets of a stream or follows it: cursors and sinks, and the other holds, which are those
-- of partners, fragments and views.
WITH hold AS (
    SELECT h.holder, h.purpose, h.from_us, h.limit_ms, medusa.to_ms(h.placed_at) AS placed_at_ms
    FROM medusa.hold AS h WHERE h.stream = :stream
)
SELECT 'hold' AS kind, h.holder AS name, h.purpose, h.from_us, NULL::bigint AS version,
    NULL::bigint AS last_version, h.placed_at_ms AS at_ms, h.placed_at_ms + h.limit_ms AS until_ms,
    NULL AS problem
FROM hold AS h WHERE h.holder NOT LIKE 'cursor:%' AND h.holder NOT LIKE 'sink:%'
UNION ALL
SELECT 'cursor', c.name, p.participant, c.from_us, c.version, p.last_version,
    medusa.to_ms(coalesce(c.moved_at, c.placed_at)), h.placed_at_ms + h.limit_ms, NULL
FROM medusa.cursor AS c JOIN medusa.stream_producer AS p ON p.line_id = c.line_id
LEFT JOIN hold AS h ON h.holder = 'cursor:' || c.name
WHERE c.stream = :stream
UNION ALL
SELECT 'sink', s.name, s.rows || ' rows', s.through_us, s.version,
    (SELECT max(p.last_version) FROM medusa.stream_producer AS p WHERE p.stream = s.stream),
    medusa.to_ms(s.delivered_at), h.placed_at_ms + h.limit_ms, s.problem
FROM medusa.sink AS s LEFT JOIN hold AS h ON h.holder = 'sink:' || s.name
WHERE s.stream = :stream
ORDER BY 1, 2, 3 LIMIT 200;
