-- When a participant's fragments came into another state of the protocol.
SELECT (extract(epoch FROM changed_at) * 1000)::float8 AS changed_ms, state, because
FROM medusa.transition WHERE participant = %(participant)s ORDER BY transition_id;
