-- What a home chose to read of a stream that several compute: which ranges, when, and of whom.
SELECT (extract(epoch FROM c.committed_at) * 1000)::float8 AS committed_ms,
    s.from_us, s.to_us, s.stability::text AS stability,
    ARRAY(SELECT DISTINCT l.participant FROM medusa.lineage AS l
          WHERE l.commit_id = s.commit_id AND l.output = p.stream
              AND l.from_us < s.to_us AND l.to_us > s.from_us
          ORDER BY l.participant) AS producers
FROM medusa.segment AS s
JOIN medusa.stream_producer AS p USING (line_id)
JOIN medusa.commit AS c ON c.commit_id = s.commit_id
WHERE p.stream = %(stream)s AND p.participant = %(participant)s AND p.replica = -1
ORDER BY c.commit_id, s.from_us;
