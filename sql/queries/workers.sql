-- All workers that have ever run, and whether they are alive.
SELECT w.name, w.holder, w.busy, w.pace, w.expires_at > clock_timestamp() AS is_alive
FROM medusa.worker AS w
ORDER BY w.name;
