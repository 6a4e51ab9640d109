-- The streams of which this home chooses among several producers: how the import's line and those of
-- the producers stand, and the live tentative rows of the import's line over which so many producers
-- have something final now that a final choice may be possible. One document.
WITH import AS MATERIALIZED (
    SELECT DISTINCT ON (a.fragment) a.partition, a.epoch, a.plan, p.line_id, p.stream,
        p.boundary_us, p.end_us, s.width_us, coalesce(q.verify_count, 1) AS verify_count,
        coalesce((SELECT min(d.bucket_us) FROM medusa_api.divergences AS d
            WHERE d.stream = p.stream), 9223372036854775807) AS disputed_us
    FROM medusa.assignment AS a
    JOIN medusa.stream_producer AS p ON p.stream = substr(a.fragment, length('import/') + 1)
        AND (p.participant, p.replica) = (a.participant, a.replica)
    JOIN medusa.stream AS s ON s.name = p.stream
    LEFT JOIN medusa.stream_promise AS q ON q.stream = p.stream
    WHERE a.fragment LIKE 'import/%' AND a.replica = -1 AND a.participant = :participant
    ORDER BY a.fragment, a.epoch DESC
), producer AS MATERIALIZED (
    SELECT p.line_id, p.stream, p.participant, p.replica, p.origin_us, p.boundary_us, p.end_us,
        p.trimmed_us, p.compared_us, (
            SELECT t.from_us FROM medusa.segment AS t
            WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
            ORDER BY t.to_us LIMIT 1
        ) AS tentative_us
    FROM import AS i JOIN medusa.stream_producer AS p ON p.stream = i.stream AND p.replica >= 0
), divergence AS MATERIALIZED (
    SELECT d.*, medusa.to_ms(d.noticed_at) AS noticed_at_ms
    FROM import AS i JOIN medusa_api.divergences AS d ON d.stream = i.stream
)
SELECT json_build_object(
    'clock_ms', medusa.to_ms(clock_timestamp()),
    'producers', (
        SELECT json_agg(p ORDER BY p.participant, p.replica) FROM producer AS p),
    'divergences', (SELECT json_agg(d ORDER BY d.divergence_id) FROM divergence AS d),
    'imports', (
        SELECT json_agg(json_build_object(
            'stream', i.stream, 'partition', i.partition, 'epoch', i.epoch, 'plan', i.plan,
            'width_us', i.width_us, 'verify', i.verify_count, 'boundary_us', i.boundary_us,
            'end_us', i.end_us,
            'lacks', (
                SELECT t.missing FROM medusa.segment AS t
                WHERE t.line_id = i.line_id AND t.end_version IS NULL
                    AND t.stability = 'tentative' AND t.to_us = least(i.boundary_us, i.end_us)),
            'tentative', (
                SELECT json_agg(json_build_array(t.from_us, t.to_us) ORDER BY t.to_us)
                FROM (
                    SELECT t.from_us, t.to_us FROM medusa.segment AS t
                    WHERE t.line_id = i.line_id AND t.end_version IS NULL
                        AND t.stability = 'tentative'
                        AND t.from_us < i.disputed_us
                        AND (
                            SELECT count(*) FILTER (WHERE has.stable) >= i.verify_count
                                OR count(*) = count(*) FILTER (WHERE has.lost)
                            -- Looked up by name: the lines above are of all streams together.
                            FROM medusa.stream_producer AS p CROSS JOIN LATERAL (
                                SELECT coalesce(bool_or(f.stability = 'stable'), false)
                                        OR p.boundary_us = 9223372036854775807
                                            AND p.end_us < t.to_us AS stable,
                                    coalesce(bool_or(f.stability = 'gap'), false)
                                        OR p.trimmed_us > t.from_us AS lost
                                FROM (
                                    SELECT u.stability FROM medusa.segment AS u
                                    WHERE u.line_id = p.line_id AND u.end_version IS NULL
                                        AND u.to_us > t.from_us AND u.to_us <= t.to_us
                                    UNION ALL (
                                        SELECT CASE WHEN u.from_us < t.to_us THEN u.stability END
                                        FROM medusa.segment AS u
                                        WHERE u.line_id = p.line_id AND u.end_version IS NULL
                                            AND u.to_us > t.to_us
                                        ORDER BY u.to_us LIMIT 1)
                                ) AS f
                            ) AS has
                            WHERE p.stream = i.stream AND p.replica >= 0)
                    ORDER BY t.to_us LIMIT :segments_max
                ) AS t)
        ) ORDER BY i.stream) FROM import AS i)
) AS knowledge;
