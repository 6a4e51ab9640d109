-- What a commit read for one output.
SELECT l.input, l.participant, l.replica, l.from_us, l.to_us, l.read_version, l.drop_rate
FROM medusa.lineage AS l WHERE l.commit_id = :commit_id AND l.output = :stream ORDER BY l.position;
