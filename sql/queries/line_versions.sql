-- The versions of a line between two, oldest first: chain, where the stable prefix ended (or what was
-- recalled of it since begins), when this home came to it, and at most how many rows came and went since the one before.
SELECT w.version, encode(w.chain, 'hex') AS chain, least(w.stable_us, (
        SELECT min(r.from_us) FROM medusa.recall AS r
        WHERE r.line_id = w.line_id AND r.version > w.version)) AS stable_us,
    medusa.to_ms(w.made_at) AS made_at_ms,
    ((SELECT coalesce(sum(s.row_count), 0) FROM medusa.segment AS s
      WHERE s.line_id = w.line_id AND s.begin_version > w.before
          AND s.begin_version <= w.version AND s.version > w.before)
    + (SELECT coalesce(sum(s.row_count), 0) FROM medusa.segment AS s
       WHERE s.line_id = w.line_id AND s.end_version IS NOT NULL AND s.end_version > w.before
           AND s.end_version <= w.version))::bigint AS rows_max
FROM (
    SELECT v.*, lag(v.version, 1, CAST(:after AS bigint)) OVER (ORDER BY v.version) AS before
    FROM (
        SELECT u.* FROM medusa.line_version AS u
        JOIN medusa.stream_producer AS p ON p.line_id = u.line_id
        WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
            AND u.version > CAST(:after AS bigint)
            AND u.version <= coalesce(CAST(:until AS bigint), 9223372036854775807)
        ORDER BY u.version LIMIT :limit
    ) AS v
) AS w
ORDER BY w.version;
