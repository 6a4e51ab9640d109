-- The recalls and revisions of a line, the newest first.
SELECT r.generation, NULLIF(r.from_us, 9223372036854775807) AS from_us, r.because, r.who, r.version,
    medusa.to_ms(r.recalled_at) AS recalled_at_ms, r.ranges IS NOT NULL AS is_revision,
    upper(r.changed) AS to_us
FROM medusa.recall AS r WHERE r.line_id = :line_id ORDER BY r.generation DESC LIMIT 20;
