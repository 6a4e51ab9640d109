-- A home of alpha among 100 participants, with 10,000 streams and a million segments, as drivers and
-- exchanges leave them: each stream is the output of a fragment that reads the one before it. Every
-- hundredth is tentative. Numbers are replaced: {streams}, {participants}, {segments}.
SET session_replication_role = replica;
ALTER TABLE medusa.segment DROP CONSTRAINT segment_live_rows_never_overlap;
INSERT INTO medusa.participant SELECT 'p' || n FROM generate_series(1, {participants}) AS n
ON CONFLICT DO NOTHING;
INSERT INTO medusa_market.party_key (participant, public_key, learned_by, because)
SELECT 'p' || n, sha256(('p' || n)::bytea), 'bench', 'bench'
FROM generate_series(1, {participants}) AS n;
INSERT INTO medusa_market.link (partner, side, state, state_since, delay_ms, answer_ms, reported_at)
SELECT 'p' || n, side, CASE WHEN n % 20 = 0 THEN 'unreachable' ELSE 'reachable' END,
    clock_timestamp(), 40, 5, clock_timestamp()
FROM generate_series(1, {participants}) AS n, unnest(ARRAY['client', 'server']) AS side;
INSERT INTO medusa.network VALUES ('wide', '{{}}');
INSERT INTO medusa.plan VALUES ('plan', 'wide', '{{}}');
INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns)
SELECT 's' || n, CASE WHEN n % 10 = 1 THEN 'source' ELSE 'derived' END, 1000000, '[]', '{{}}'
FROM generate_series(1, {streams}) AS n;
INSERT INTO medusa.fragment (id, network, inputs, outputs)
SELECT 'wide/f' || n, 'wide', CASE WHEN n % 10 = 1 THEN '{{}}' ELSE ARRAY['s' || n - 1] END,
    ARRAY['s' || n]
FROM generate_series(1, {streams}) AS n;
INSERT INTO medusa.assignment (fragment, partition, epoch, participant, replica, plan)
SELECT 'wide/f' || n, 0, 1, CASE WHEN n % 2 = 0 THEN 'alpha' ELSE 'p' || 1 + n % {participants} END,
    0, 'plan'
FROM generate_series(1, {streams}) AS n;
INSERT INTO medusa.lease
SELECT 'wide/f' || n, 0, 'alpha', 0, 'live', 1, 'host:' || n, clock_timestamp() + interval '1 day'
FROM generate_series(2, {streams}, 2) AS n;
INSERT INTO medusa.transition (fragment, partition, participant, replica, state, because, changed_at)
SELECT 'wide/f' || n, 0, 'alpha', 0, 'UP_FAILURE', 'without s' || n - 1, clock_timestamp()
FROM generate_series(100, {streams}, 100) AS n;
INSERT INTO medusa.stream_producer
    (stream, participant, replica, last_version, origin_us, boundary_us)
SELECT 's' || n, CASE WHEN n % 2 = 0 THEN 'alpha' ELSE 'p' || 1 + n % {participants} END, 0, 100, 0,
    1000000::bigint * ({segments} / {streams})
FROM generate_series(1, {streams}) AS n;
INSERT INTO medusa.segment
    (line_id, from_us, to_us, stability, version, begin_version, plan, commit_id)
SELECT p.line_id, 1000000::bigint * (k - 1), 1000000::bigint * k,
    CASE WHEN k = {segments} / {streams} AND p.line_id % 100 = 0 THEN 'tentative' ELSE 'stable' END
        ::medusa.stability, k, k, 'plan', k
FROM medusa.stream_producer AS p, generate_series(1, {segments} / {streams}) AS k;
ANALYZE;
