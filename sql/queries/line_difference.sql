-- What two versions of a line do not share: rows that were live at the first and are not at the
-- second, and the reverse, in event-time order. What both have is not looked at.
SELECT s.is_after, s.from_us, s.to_us, s.stability::text AS stability, s.version, s.plan, s.age_ms,
    s.missing, s.bucket_us, s.bucket_rows, array_to_string(s.sum_a, ',') AS sum_a,
    array_to_string(s.sum_b, ',') AS sum_b,
    (SELECT json_agg(json_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
     FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
     JOIN medusa.file AS f ON f.file_id = u.file_id) AS files
FROM medusa.stream_producer AS p
CROSS JOIN LATERAL (
    SELECT false AS is_after, t.* FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.end_version IS NOT NULL AND t.end_version > :since
        AND t.end_version <= :until AND t.begin_version <= :since
    UNION ALL
    SELECT true, t.* FROM medusa.segment AS t
    WHERE t.line_id = p.line_id AND t.begin_version > :since AND t.begin_version <= :until
        AND (t.end_version IS NULL OR t.end_version > :until)
) AS s
WHERE p.stream = :stream AND p.participant = :participant AND p.replica = :replica
    AND s.to_us > CAST(:from_us AS bigint) AND s.from_us < CAST(:to_us AS bigint)
ORDER BY s.is_after, s.from_us;
