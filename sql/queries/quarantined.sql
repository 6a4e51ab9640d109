-- Records in quarantine, oldest first.
SELECT stream, origin, position, field, reason, content FROM medusa.quarantine
ORDER BY quarantine_id LIMIT :limit;
