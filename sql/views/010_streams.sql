-- Views for people: seen with the reader's own rights.

CREATE VIEW medusa_api.streams WITH (security_invoker = true) AS
SELECT s.name AS stream, s.kind, s.width_us, s.columns, s.key_columns, p.participant, p.replica,
    p.last_version AS version, p.origin_us, p.boundary_us, p.promised_us, p.end_us,
    p.boundary_us = 9223372036854775807 AS has_ended, p.trimmed_us
FROM medusa.stream AS s JOIN medusa.stream_producer AS p ON p.stream = s.name;
COMMENT ON VIEW medusa_api.streams IS
    'Every (stream, producer) and its progress.';

CREATE VIEW medusa_api.segments WITH (security_invoker = true) AS
SELECT p.stream, p.participant, p.replica, s.from_us, s.to_us, s.stability, s.version, s.plan,
    s.row_count, s.bucket_count, s.age_ms, s.missing, s.commit_id
FROM medusa.segment AS s JOIN medusa.stream_producer AS p ON p.line_id = s.line_id
WHERE s.end_version IS NULL;
COMMENT ON VIEW medusa_api.segments IS 'Live segments.';

CREATE VIEW medusa_api.steps WITH (security_invoker = true) AS
SELECT c.commit_id, c.fragment, c.partition, c.participant, c.replica, c.lane, c.epoch, c.plan,
    c.cause, c.from_us, c.to_us, c.versions, c.committed_at, m.records_in, m.records_out,
    m.spark_jobs, m.phases_ms
FROM medusa.commit AS c JOIN medusa.step_metrics AS m ON m.commit_id = c.commit_id;
COMMENT ON VIEW medusa_api.steps IS
    'Steps, and their costs.';

CREATE VIEW medusa_api.lineage WITH (security_invoker = true) AS
SELECT commit_id, output, position, input, participant, replica, from_us, to_us, read_version,
    drop_rate
FROM medusa.lineage;
COMMENT ON VIEW medusa_api.lineage IS
    'The inputs of each commit''s outputs.';

CREATE VIEW medusa_api.quarantine WITH (security_invoker = true) AS
SELECT quarantine_id, stream, origin, position, field, reason, content, commit_id, quarantined_at,
    size_bytes, sha256, outputs
FROM medusa.quarantine;
COMMENT ON VIEW medusa_api.quarantine IS 'Records that could not be used.';

CREATE VIEW medusa_api.assignments WITH (security_invoker = true) AS
SELECT fragment, partition, epoch, participant, replica, plan, from_us, assigned_at
FROM medusa.assignment;
COMMENT ON VIEW medusa_api.assignments IS
    'The log of assignments of fragments to participants.';

CREATE VIEW medusa_api.leases WITH (security_invoker = true) AS
SELECT fragment, partition, participant, replica, lane, epoch, holder, expires_at,
    expires_at > clock_timestamp() AS is_held
FROM medusa.lease;
COMMENT ON VIEW medusa_api.leases IS
    'The present holders of leases.';

CREATE VIEW medusa_api.transitions WITH (security_invoker = true) AS
SELECT fragment, partition, participant, replica, state, because, changed_at
FROM medusa.transition;
COMMENT ON VIEW medusa_api.transitions IS
    'When fragments changed to UP_FAILURE, STABILIZATION and back to STABLE, and why.';

CREATE VIEW medusa_api.bounds WITH (security_invoker = true) AS
SELECT stream, bound_ms, during_failure, during_stabilization, failure_ms_max, lag_ms,
    qos
FROM medusa.stream_promise;
COMMENT ON VIEW medusa_api.bounds IS
    'The bounds of streams, their policies, and what they are worth by delay and by loss.';
