-- A line at a version, if this home ever stood there: its chain, when, and where the part of it ended
-- that was final then and was not recalled since.
SELECT v.version, encode(v.chain, 'hex') AS chain, least(v.stable_us, (
        SELECT min(r.from_us) FROM medusa.recall AS r
        WHERE r.line_id = v.line_id AND r.version > v.version)) AS stable_us,
    medusa.to_ms(v.made_at) AS made_at_ms, 0::bigint AS rows_max
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT u.* FROM medusa.line_version AS u
    WHERE u.line_id = p.line_id AND u.version <= CAST(:version AS bigint)
    ORDER BY u.version DESC LIMIT 1
) AS v
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica;
