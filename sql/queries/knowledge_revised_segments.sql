-- Segments that are owed again, by number, as a step needs them; their files are not read.
SELECT s.segment_id, s.line_id, s.from_us, s.to_us, s.stability::text AS stability, s.version, s.plan,
    s.age_ms, s.missing, s.bucket_us, s.bucket_rows, array_to_string(s.sum_a, ',') AS sum_a,
    array_to_string(s.sum_b, ',') AS sum_b,
    (SELECT medusa.to_ms(c.committed_at) FROM medusa.commit AS c
     WHERE c.commit_id = s.commit_id) AS arrived_ms,
    NULL::json AS files
FROM medusa.segment AS s WHERE s.segment_id = ANY (CAST(:segment_ids AS bigint[]));
