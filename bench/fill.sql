-- The history of %(windows)s windows, as landing, closing and computing would have left it.
--
-- Per window: a landed batch, a closed segment of the source, and a step with a segment of each
-- output. Every tenth window was first computed as tentative and then superseded by a correction.
-- Written by the owner under every constraint and guard; identities are drawn from the window's
-- number w: files 8w + 1 .. 8w + 8, commits 3w + 1 .. 3w + 3, steps before it w + ceil(w / 10).
CREATE TEMPORARY TABLE fill ON COMMIT DROP AS
SELECT w, %(start_us)s + w * %(width_us)s AS from_us, w %% 10 = 0 AS was_tentative,
    w + (w + 9) / 10 AS steps_before
FROM generate_series(0::bigint, %(windows)s - 1) AS w (w);

CREATE TEMPORARY TABLE line ON COMMIT DROP AS
SELECT p.line_id, p.stream, s.kind,
    row_number() OVER (PARTITION BY s.kind ORDER BY p.stream)::integer AS nth
FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream;

CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT w, from_us, 3 * w + 1 AS commit_id, 'landing' AS cause, w + 1 AS version FROM fill
UNION ALL
SELECT w, from_us, 3 * w + 2, CASE WHEN was_tentative THEN 'correction' ELSE 'normal' END,
    steps_before + 1 + was_tentative::integer FROM fill
UNION ALL
SELECT w, from_us, 3 * w + 3, 'tentative', steps_before + 1 FROM fill WHERE was_tentative;

INSERT INTO medusa.file (file_id, stream, path, size_bytes, sha256, rows) OVERRIDING SYSTEM VALUE
SELECT 8 * w + 1, stream, format('%%s/landed/fill-%%s.parquet', stream, w), 1000, repeat('0', 64), 10
FROM fill, line WHERE kind = 'source'
UNION ALL
SELECT 8 * w + 2, stream, format('%%s/fill-%%s.parquet', stream, w), 1000, repeat('0', 64), 10
FROM fill, line WHERE kind = 'source'
UNION ALL
SELECT 8 * w + 2 + nth, stream, format('%%s/fill-%%s.parquet', stream, w), 1000, repeat('0', 64), 1
FROM fill, line WHERE kind = 'derived'
UNION ALL
SELECT 8 * w + 5 + nth, stream, format('%%s/fill-%%s-t.parquet', stream, w), 1000, repeat('0', 64), 1
FROM fill, line WHERE kind = 'derived' AND was_tentative;

INSERT INTO medusa.landed_batch (batch_no, line_id, stream, query_id, batch_id, file_id, records)
OVERRIDING SYSTEM VALUE
SELECT w + 1, line_id, stream, 'fill', w, 8 * w + 1, 10 FROM fill, line WHERE kind = 'source';
INSERT INTO medusa.landed_bucket (line_id, bucket_us, batch_no, records)
SELECT line_id, from_us, w + 1, 10 FROM fill, line WHERE kind = 'source';

INSERT INTO medusa.commit (commit_id, key, fragment, partition, participant, replica, lane, epoch,
    plan, cause, from_us, to_us, versions, committed_at)
OVERRIDING SYSTEM VALUE
SELECT m.commit_id, encode(sha256(convert_to('fill ' || m.commit_id, 'UTF8')), 'hex'), f.id, 0,
    %(participant)s, 0, 'live', 1, %(plan)s, m.cause::medusa.cause, m.from_us,
    m.from_us + %(width_us)s,
    (SELECT jsonb_object_agg(o, m.version) FROM unnest(f.outputs) AS o), clock_timestamp()
FROM made AS m JOIN medusa.fragment AS f ON (cardinality(f.inputs) = 0) = (m.cause = 'landing');
INSERT INTO medusa.step_metrics (commit_id, records_in, records_out, spark_jobs, phases_ms)
SELECT commit_id, 10, 3, 1, '{"plan": 20.0, "spark": 40.0, "write": 5.0, "sync": 2.0}' FROM made;
INSERT INTO medusa.lineage (commit_id, output, position, input, participant, replica, from_us,
    to_us, read_version, drop_rate)
SELECT m.commit_id, o.stream, o.nth - 1, i.stream, %(participant)s, 0, m.from_us,
    m.from_us + %(width_us)s, m.w + 1, 0
FROM made AS m, line AS o, line AS i
WHERE m.cause <> 'landing' AND o.kind = 'derived' AND i.kind = 'source';

-- A tentative row begins live and is then superseded, as the guard demands.
CREATE TEMPORARY TABLE written ON COMMIT DROP AS
SELECT l.line_id, m.from_us, m.from_us + %(width_us)s AS to_us, m.version, m.commit_id,
    (CASE WHEN m.cause = 'tentative' THEN 'tentative' ELSE 'stable' END)::medusa.stability
        AS stability,
    CASE WHEN m.cause = 'tentative' THEN ARRAY['connections'] ELSE '{}' END AS missing,
    CASE WHEN l.kind = 'source' THEN 10 ELSE 1 END AS row_count,
    8 * m.w + 2 + CASE m.cause WHEN 'landing' THEN 0 WHEN 'tentative' THEN 3 + l.nth
        ELSE l.nth END AS file_id
FROM made AS m JOIN line AS l ON (l.kind = 'source') = (m.cause = 'landing');

PREPARE write_segments (medusa.stability) AS
INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
    commit_id, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
SELECT line_id, from_us, to_us, stability, version, version, %(plan)s, commit_id, missing,
    ARRAY[from_us], ARRAY[row_count], ARRAY[9223372036854775808 + commit_id],
    ARRAY[4611686018427387904 + commit_id], ARRAY[file_id]
FROM written WHERE stability = $1 ORDER BY commit_id, line_id;
EXECUTE write_segments ('tentative');
UPDATE medusa.segment SET end_version = begin_version + 1 WHERE stability = 'tentative';
EXECUTE write_segments ('stable');
DEALLOCATE write_segments;

UPDATE medusa.stream_producer AS p
SET origin_us = %(start_us)s, boundary_us = %(start_us)s + %(windows)s::bigint * %(width_us)s,
    promised_us = CASE WHEN l.kind = 'source'
        THEN %(start_us)s + %(windows)s::bigint * %(width_us)s END,
    last_version = (SELECT max(m.version) FROM made AS m
        WHERE (m.cause = 'landing') = (l.kind = 'source'))
FROM line AS l WHERE l.line_id = p.line_id;

SELECT setval(pg_get_serial_sequence('medusa.file', 'file_id'), 8 * %(windows)s + 8);
SELECT setval(pg_get_serial_sequence('medusa.commit', 'commit_id'), 3 * %(windows)s + 3);
SELECT setval(pg_get_serial_sequence('medusa.landed_batch', 'batch_no'), %(windows)s);
