-- The changes up to a version are applied: the cursor moves there, and its hold with it.
SELECT medusa.move_cursor(:stream, :cursor, :version, :limit_ms);
