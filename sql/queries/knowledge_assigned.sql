-- What is assigned to this home under the newest epochs, how the lines of those streams stand, and
-- how many records have landed per bucket that no segment holds yet, and the clock: one document.
WITH newest AS (
    SELECT DISTINCT ON (a.fragment, a.partition, a.replica)
        a.fragment, a.partition, a.participant, a.replica, a.epoch, a.plan, f.inputs, f.outputs,
        f.starts_us
    FROM medusa.assignment AS a JOIN medusa.fragment AS f ON f.id = a.fragment
    ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC
), assigned AS MATERIALIZED (
    SELECT n.*, (
        SELECT json_agg(json_build_array(a.plan, a.from_us) ORDER BY a.epoch)
        FROM medusa.assignment AS a
        WHERE (a.fragment, a.partition, a.replica) = (n.fragment, n.partition, n.replica)
    ) AS plans, (
        -- At most one line is ahead of what is computed, so that the last three have the present one.
        SELECT json_agg(json_build_array(o.participant, o.replica, o.from_us, o.timeout_ms)
            ORDER BY o.epoch)
        FROM (
            SELECT * FROM medusa.fragment_owner AS l
            WHERE (l.fragment, l.partition) = (n.fragment, n.partition)
            ORDER BY l.epoch DESC LIMIT 3
        ) AS o
        -- What a provider has read of a stream that was recalled or revised since is not known here.
        WHERE NOT EXISTS (
            SELECT FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id
            WHERE p.stream = ANY (n.inputs || n.outputs) AND r.recalled_at > o.noted_at)
    ) AS owners, EXISTS (
        SELECT FROM medusa.lease AS b
        WHERE (b.fragment, b.partition, b.participant, b.replica, b.lane) =
            (n.fragment, n.partition, n.participant, n.replica, 'backlog')
            AND b.expires_at > clock_timestamp()
    ) AS is_corrected_apart
    FROM newest AS n
    WHERE participant = :participant
        AND (cardinality(inputs) = 0 OR fragment = ANY (CAST(:fragments AS text[])))
), line AS MATERIALIZED (
    SELECT p.line_id, p.stream, p.participant, p.replica, p.origin_us, p.boundary_us,
        p.promised_us, p.end_us, s.kind, s.width_us, coalesce(q.lag_ms, 0) AS lag_ms,
        CASE WHEN q.bound_ms IS NOT NULL THEN json_build_array(q.bound_ms, q.during_failure,
            q.during_stabilization, q.failure_ms_max) END AS bound,
        q.qos,
        CASE WHEN q.bound_ms IS NOT NULL THEN (
            SELECT max(h.path_ms) FROM medusa.hold AS h WHERE h.stream = p.stream
        ) END AS path_ms,
        (
            SELECT t.from_us FROM medusa.segment AS t
            WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
            ORDER BY t.to_us LIMIT 1
        ) AS tentative_us,
        (
            SELECT t.missing FROM medusa.segment AS t
            WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
                AND t.to_us = p.boundary_us
        ) AS lacks,
        CASE WHEN p.generation > 1 THEN (
            SELECT max(r.generation) FROM medusa.recall AS r
            WHERE r.line_id = p.line_id AND r.changed <> '{}'
        ) END AS revised
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    LEFT JOIN medusa.stream_promise AS q ON q.stream = p.stream
    WHERE p.stream IN (SELECT unnest(inputs || outputs) FROM assigned)
)
SELECT json_build_object(
    'clock_ms', medusa.to_ms(clock_timestamp()),
    'assigned', (SELECT json_agg(a) FROM assigned AS a),
    'lines', (SELECT json_agg(l) FROM line AS l),
    'landed', (
        SELECT json_agg(json_build_array(l.line_id, landed.bucket_us, landed.records))
        FROM line AS l
        CROSS JOIN LATERAL (
            SELECT b.bucket_us, sum(b.records)::bigint AS records
            FROM medusa.landed_bucket AS b
            WHERE b.line_id = l.line_id AND b.bucket_us >= l.boundary_us
            GROUP BY b.bucket_us ORDER BY b.bucket_us LIMIT :buckets_max
        ) AS landed
        WHERE l.kind = 'source' AND l.participant = :participant
    )
) AS knowledge;
