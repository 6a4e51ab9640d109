-- The workers that were there, and whether they still are.
SELECT w.name, w.holder, w.busy, w.pace, w.expires_at > clock_timestamp() AS is_there
FROM medusa.worker AS w
ORDER BY w.name;
