-- Records in quarantine, oldest first.
SELECT stream, origin, position, field, reason, content, size_bytes, sha256, outputs
FROM medusa.quarantine
ORDER BY quarantine_id LIMIT :limit;
