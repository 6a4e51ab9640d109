-- A worker is gone before its time has passed.
SELECT medusa.end_worker(:worker, :holder);
