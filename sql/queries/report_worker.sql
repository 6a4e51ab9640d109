-- A worker is there for a while, with its load and its pace.
SELECT medusa.report_worker(:worker, :holder, :busy, :pace, :ttl_ms);
