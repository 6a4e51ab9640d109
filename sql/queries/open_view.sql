-- Renew the limit of a view and hold its buckets for a reader; where they begin.
SELECT medusa.open_view(:view, :reader, :limit_ms);
