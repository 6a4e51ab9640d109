-- From when on a line took rows back between two versions, and at which version last.
SELECT min(r.from_us) AS from_us, max(r.version) AS version
FROM medusa.recall AS r JOIN medusa.stream_producer AS p ON p.line_id = r.line_id
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
    AND r.version > :since AND r.version <= :until;
