CREATE VIEW medusa_api.holds WITH (security_invoker = true) AS
SELECT stream, holder, purpose, from_us, limit_ms, placed_at, path_ms FROM medusa.hold;
COMMENT ON VIEW medusa_api.holds IS
    'The holds, and the buckets that they keep.';

CREATE VIEW medusa_api.sinks WITH (security_invoker = true) AS
SELECT stream, name, from_us, through_us, version, rows, lost_us, problem, declared_at, delivered_at
FROM medusa.sink;
COMMENT ON VIEW medusa_api.sinks IS 'How far each sink has delivered.';

CREATE VIEW medusa_api.cursors WITH (security_invoker = true) AS
SELECT c.stream, c.name, p.participant, p.replica, c.version, p.last_version, c.from_us,
    c.placed_at, c.moved_at
FROM medusa.cursor AS c JOIN medusa.stream_producer AS p ON p.line_id = c.line_id;
COMMENT ON VIEW medusa_api.cursors IS 'How far consumers have applied the changes of streams.';

CREATE VIEW medusa_api.views WITH (security_invoker = true) AS
SELECT v.name, v.stream, v.records, v.duration_us, v.from_us, v.to_us, v.made_at,
    h.from_us AS held_from_us, h.placed_at AS used_at,
    h.placed_at + h.limit_ms * interval '1 millisecond' AS expires_at
FROM medusa.stream_view AS v
LEFT JOIN medusa.hold AS h
    ON (h.stream, h.holder, h.purpose) = (v.stream, 'view:' || v.name, 'view');
COMMENT ON VIEW medusa_api.views IS
    'Named parts of streams that are kept for queries, from which bucket on, and until when.';

CREATE VIEW medusa_api.recalls WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, r.generation, r.from_us, r.because, r.who, r.version,
    r.recalled_at, r.ranges, r.changed
FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id;
COMMENT ON VIEW medusa_api.recalls IS
    'Recalls and revisions: from which bucket on, or which ranges, by whom and why.';

CREATE VIEW medusa_api.certificates WITH (security_invoker = true) AS
SELECT certificate_id, stream, participant, replica, version, suite, law, from_us, to_us, passed,
    figures, engines, quarantined, certified_at
FROM medusa.certificate;
COMMENT ON VIEW medusa_api.certificates IS
    'Results of checks, window by window.';

CREATE VIEW medusa_api.divergences WITH (security_invoker = true) AS
SELECT divergence_id, stream, bucket_us, plan, participant, replica, version, rows, sum_a, sum_b,
    other_participant, other_replica, other_version, other_rows, other_sum_a, other_sum_b,
    noticed_at
FROM medusa.divergence AS d
WHERE NOT EXISTS (
    SELECT FROM medusa.divergence_settled AS s WHERE s.divergence_id = d.divergence_id);
COMMENT ON VIEW medusa_api.divergences IS
    'Where producers of a stream disagree: those not settled.';

CREATE VIEW medusa_api.disputed WITH (security_invoker = true) AS
WITH RECURSIVE disputed AS (
    SELECT d.stream, min(d.bucket_us) AS from_us FROM medusa_api.divergences AS d GROUP BY d.stream
    UNION
    SELECT s.name, d.from_us - ((d.from_us % s.width_us) + s.width_us) % s.width_us
    FROM disputed AS d
    JOIN medusa.fragment AS f ON d.stream = ANY (f.inputs)
    JOIN medusa.stream AS s ON s.name = ANY (f.outputs)
)
SELECT d.stream, min(d.from_us) AS from_us FROM disputed AS d GROUP BY d.stream;
COMMENT ON VIEW medusa_api.disputed IS
    'The bucket from which each stream is disputed: those whose producers disagree, and those '
    'computed from them here.';

CREATE VIEW medusa_api.published_boundaries WITH (security_invoker = true) AS
SELECT stream, participant, replica, last_version AS version, origin_us, boundary_us, end_us,
    trimmed_us
FROM medusa.stream_producer;
COMMENT ON VIEW medusa_api.published_boundaries IS
    'The progress of each line.';

CREATE VIEW medusa_api.published_segments WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, s.from_us, s.to_us, s.stability, s.generation,
    s.version, s.begin_version, s.end_version, s.plan, s.age_ms, s.missing, s.bucket_us,
    s.bucket_rows, s.sum_a, s.sum_b, s.file_ids
FROM medusa.segment AS s JOIN medusa.stream_producer AS p ON p.line_id = s.line_id;
COMMENT ON VIEW medusa_api.published_segments IS 'Segments and their digests.';

CREATE VIEW medusa_api.published_files WITH (security_invoker = true) AS
SELECT file_id, stream, path, size_bytes, sha256, rows FROM medusa.file;
COMMENT ON VIEW medusa_api.published_files IS 'Files that segments and landed batches name.';
