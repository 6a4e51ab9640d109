-- The record of a table into which nothing was delivered yet.
INSERT INTO {record} (target, home, participant, stream, sink, through_us, through, version, rows,
    lost_us, deliveries, overlay, delivered_at)
VALUES (%(target)s, %(home)s, %(participant)s, %(stream)s, %(sink)s, %(through_us)s, %(through)s,
    %(version)s, %(rows)s, %(lost_us)s, %(deliveries)s, '[]', pg_catalog.clock_timestamp())
ON CONFLICT (target) DO NOTHING;
