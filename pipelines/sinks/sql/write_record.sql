-- The record of a table after a delivery.
UPDATE {record}
SET through_us = %(through_us)s, through = %(through)s, version = %(version)s, rows = %(rows)s,
    lost_us = %(lost_us)s, deliveries = %(deliveries)s, last_from_us = %(last_from_us)s,
    last_to_us = %(last_to_us)s, last_digest = %(last_digest)s, overlay = %(overlay)s,
    delivered_at = pg_catalog.clock_timestamp()
WHERE target = %(target)s;
