-- The version that a line had here at a time of this home's clock; no row: none yet.
SELECT v.version
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT u.version FROM medusa.line_version AS u
    WHERE u.line_id = p.line_id
        AND u.made_at < to_timestamp((CAST(:at_ms AS bigint) + 1) / 1000.0)
    ORDER BY u.made_at DESC, u.version DESC LIMIT 1
) AS v
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica;
