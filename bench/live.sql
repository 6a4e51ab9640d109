-- How one participant's own lines stand, in its home: how far the slowest of them reaches, how many
-- have not begun, and what has landed and been committed so far.
SELECT extract(epoch FROM clock_timestamp())::float8 AS clock_s,
    (SELECT min(boundary_us) FROM medusa.stream_producer
     WHERE participant = %(participant)s AND replica >= 0)::float8 / 1e6 AS boundary_s,
    (SELECT count(*) FROM medusa.stream_producer
     WHERE participant = %(participant)s AND replica >= 0 AND boundary_us IS NULL)::float8 AS unbegun,
    (SELECT coalesce(sum(records), 0) FROM medusa.landed_batch)::float8 AS landed,
    (SELECT count(*) FROM medusa.landed_batch)::float8 AS batches,
    (SELECT extract(epoch FROM min(landed_at)) FROM medusa.landed_batch)::float8 AS first_landed_s,
    (SELECT count(*) FROM medusa.commit WHERE participant = %(participant)s)::float8 AS commits;
