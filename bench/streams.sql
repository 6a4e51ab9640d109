-- How one home with many streams stands: how far the outputs are behind the clock, and what its
-- steps have cost so far.
SELECT
    (SELECT count(*) FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
     WHERE s.kind = 'derived' AND p.boundary_us IS NOT NULL)::float8 AS begun,
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp()) - p.boundary_us / 1e6), 0)
     FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
     WHERE s.kind = 'derived')::float8 AS behind_s,
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp()) - p.promised_us / 1e6), 0)
     FROM medusa.stream_producer AS p)::float8 AS promised_behind_s,
    (SELECT count(*) FROM medusa.commit)::float8 AS commits,
    (SELECT coalesce(sum(m.spark_jobs), 0) FROM medusa.step_metrics AS m)::float8 AS spark_jobs,
    (SELECT coalesce(sum(b.records), 0) FROM medusa.landed_batch AS b)::float8 AS landed,
    (SELECT coalesce(max(b.batch_id) + 1, 0) FROM medusa.landed_batch AS b)::float8 AS batches;
