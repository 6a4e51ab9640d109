-- How one home stands: its size, what was committed in it, how far behind the clock the lines are
-- that are written here, and what is kept.
SELECT pg_database_size(current_database()) AS database_bytes,
    (SELECT count(*) FROM medusa.commit) AS commits,
    (SELECT count(*) FROM medusa.commit AS c JOIN medusa.step_metrics AS m USING (commit_id)
     WHERE c.participant = %(participant)s AND m.records_in > 0) AS steps,
    (SELECT count(*) FROM medusa.segment WHERE end_version IS NULL) AS segments,
    (SELECT count(*) FROM medusa.file) AS files,
    (SELECT count(*) FROM medusa.landed_batch) AS batches,
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp()) - boundary_us / 1e6), 0)::float8
     FROM medusa.stream_producer WHERE participant = %(participant)s AND end_us IS NULL
     AND boundary_us IS NOT NULL) AS behind_s;
