-- For each request the live segments of a line from an event time on: all that begin before
-- need_us, and where more are requested, on until a step could not take them. next_from_us is the
-- start of the segment behind, so that the reader sees where the list was cut.
SELECT s.request, s.next_from_us, s.line_id, s.from_us, s.to_us, s.stability::text AS stability,
    s.version, s.plan, s.age_ms,
    s.missing, s.bucket_us, s.bucket_rows, array_to_string(s.sum_a, ',') AS sum_a,
    array_to_string(s.sum_b, ',') AS sum_b,
    (SELECT medusa.to_ms(c.committed_at) FROM medusa.commit AS c
     WHERE c.commit_id = s.commit_id) AS arrived_ms,
    CASE WHEN s.stability <> 'stable' THEN (
        SELECT max(l.drop_rate) FROM medusa.lineage AS l
        JOIN medusa.stream_producer AS p ON p.stream = l.output
        WHERE l.commit_id = s.commit_id AND p.line_id = s.line_id
    ) END AS drop_rate,
    (SELECT json_agg(json_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
     FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
     JOIN medusa.file AS f ON f.file_id = u.file_id) AS files
FROM unnest(CAST(:requests AS integer[]), CAST(:line_ids AS integer[]), CAST(:from_us AS bigint[]),
    CAST(:need_us AS bigint[]), CAST(:beyond AS integer[]))
    AS requested (request, line_id, from_us, need_us, beyond)
CROSS JOIN LATERAL (
    SELECT requested.request, requested.need_us, found.*,
        lead(found.from_us) OVER in_order AS next_from_us,
        count(*) FILTER (WHERE found.from_us >= requested.need_us) OVER in_order AS segments_beyond,
        -- What windows that reach back read again is no part of the step's limits.
        sum(found.row_count) FILTER (WHERE found.from_us >= requested.need_us) OVER in_order
            - found.row_count AS rows_before,
        sum(found.bucket_count) FILTER (WHERE found.from_us >= requested.need_us) OVER in_order
            - found.bucket_count AS buckets_before
    FROM (
        SELECT * FROM medusa.segment AS t
        WHERE t.line_id = requested.line_id AND t.end_version IS NULL
            AND t.to_us > requested.from_us AND t.to_us <= requested.need_us
        UNION ALL (
            SELECT * FROM medusa.segment AS t
            WHERE t.line_id = requested.line_id AND t.end_version IS NULL
                AND t.to_us > greatest(requested.from_us, requested.need_us)
            ORDER BY t.to_us LIMIT requested.beyond + 2
        )
    ) AS found
    WINDOW in_order AS (ORDER BY found.to_us)
) AS s
WHERE s.from_us < s.need_us
    OR (s.segments_beyond <= requested.beyond
        AND s.rows_before <= :records_max AND s.buckets_before <= :buckets_max)
ORDER BY s.request, s.to_us;
