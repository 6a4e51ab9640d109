-- The partners' lines that this home imports, under which assignment, and how far each has come.
WITH newest AS (
    SELECT DISTINCT ON (a.fragment) a.fragment, a.epoch, a.plan, a.participant, a.replica
    FROM medusa.assignment AS a JOIN medusa.fragment AS f ON f.id = a.fragment
    WHERE a.fragment LIKE 'import/%' AND f.stopped_at IS NULL
    ORDER BY a.fragment, a.epoch DESC
), disputed AS MATERIALIZED (
    SELECT d.stream, d.participant, d.replica, d.bucket_us FROM medusa_api.divergences AS d
    UNION ALL
    SELECT d.stream, d.other_participant, d.other_replica, d.bucket_us
    FROM medusa_api.divergences AS d
)
SELECT p.stream, p.participant, p.replica, p.last_version, p.boundary_us, n.epoch, n.plan,
    n.replica AS own_replica, medusa.to_ms(clock_timestamp()) AS read_at_ms,
    (SELECT t.from_us FROM medusa.segment AS t
     WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
     ORDER BY t.to_us LIMIT 1) AS tentative_us,
    (SELECT min(d.bucket_us) FROM disputed AS d
     WHERE (d.stream, d.participant, d.replica) = (p.stream, p.participant, p.replica))
        AS disputed_us,
    (SELECT encode(v.chain, 'hex') FROM medusa.line_version AS v
     WHERE (v.line_id, v.version) = (p.line_id, p.last_version)) AS chain
FROM newest AS n
JOIN medusa.stream_producer AS p ON p.stream = substr(n.fragment, length('import/') + 1)
WHERE n.participant = :participant AND p.participant <> n.participant
    -- What a provider computed under a move that has ended is not needed any more.
    AND NOT EXISTS (
        SELECT FROM medusa.fragment AS f JOIN medusa.assignment AS a ON a.fragment = f.id
        WHERE f.id LIKE 'moved/%' AND f.stopped_at IS NOT NULL AND p.stream = ANY (f.outputs)
            AND (a.participant, a.replica) = (p.participant, p.replica))
ORDER BY p.stream, p.participant, p.replica;
