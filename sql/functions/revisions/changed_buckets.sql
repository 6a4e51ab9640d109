CREATE OR REPLACE FUNCTION medusa.changed_buckets(line_id integer, ranges int8multirange, parts jsonb)
RETURNS int8multirange
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(range_agg(int8range(d.at_us, d.at_us + s.width_us)), '{}')
    FROM (
        SELECT at_us
        FROM (
            SELECT b.at_us, b.n, b.a, b.b
            FROM medusa.segment AS t
            CROSS JOIN LATERAL unnest(t.bucket_us, t.bucket_rows, t.sum_a, t.sum_b)
                AS b (at_us, n, a, b)
            WHERE t.line_id = changed_buckets.line_id AND t.end_version IS NULL
                AND t.to_us > lower(ranges) AND t.from_us < upper(ranges) AND ranges @> b.at_us
        ) AS before
        FULL JOIN (
            SELECT b.at_us, b.n, b.a, b.b
            FROM jsonb_to_recordset(parts) AS r
                (bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[])
            CROSS JOIN LATERAL unnest(r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b)
                AS b (at_us, n, a, b)
        ) AS after USING (at_us)
        WHERE (before.n, before.a, before.b) IS DISTINCT FROM (after.n, after.a, after.b)
    ) AS d
    JOIN medusa.stream_producer AS p ON p.line_id = changed_buckets.line_id
    JOIN medusa.stream AS s ON s.name = p.stream
$$;
COMMENT ON FUNCTION medusa.changed_buckets(integer, int8multirange, jsonb) IS
    'The buckets of a line in some ranges that differ from those that shall take their place.';
