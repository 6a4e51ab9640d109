CREATE OR REPLACE FUNCTION medusa.check_late(line_id integer, named int8multirange, parts jsonb,
    late bigint[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    SELECT n INTO bad FROM unnest(late) AS n
    WHERE NOT EXISTS (SELECT FROM medusa.late_record AS l
            WHERE l.quarantine_id = n AND l.line_id = check_late.line_id)
        OR EXISTS (SELECT FROM medusa.quarantine_retry AS r WHERE r.quarantine_id = n)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'record % of quarantine does not wait any more: read again', bad
            USING ERRCODE = 'MD002';
    END IF;
    IF cardinality(late) > (SELECT count(DISTINCT n) FROM unnest(late) AS n) THEN
        RAISE EXCEPTION 'a late record is named twice: name each once' USING ERRCODE = 'MD001';
    END IF;
    SELECT coalesce(x.at_us, after.at_us) INTO bad
    FROM (
        SELECT r.at_us, sum(r.n) AS n, sum(r.a) AS a, sum(r.b) AS b
        FROM (
            SELECT b.at_us, b.n, b.a, b.b
            FROM medusa.segment AS t
            CROSS JOIN LATERAL unnest(t.bucket_us, t.bucket_rows, t.sum_a, t.sum_b)
                AS b (at_us, n, a, b)
            WHERE t.line_id = check_late.line_id AND t.end_version IS NULL
                AND t.to_us > lower(named) AND t.from_us < upper(named) AND named @> b.at_us
            UNION ALL
            SELECT l.bucket_us, 1, l.sum_a, l.sum_b
            FROM unnest(late) AS n JOIN medusa.late_record AS l ON l.quarantine_id = n
        ) AS r (at_us, n, a, b)
        GROUP BY r.at_us
    ) AS x
    FULL JOIN (
        SELECT b.at_us, b.n, b.a, b.b
        FROM jsonb_to_recordset(parts) AS r
            (bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[])
        CROSS JOIN LATERAL unnest(r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b)
            AS b (at_us, n, a, b)
    ) AS after USING (at_us)
    WHERE (x.n, x.a, x.b) IS DISTINCT FROM (after.n, after.a, after.b)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'bucket % would hold other rows than before and its late records: add these '
            'alone', bad USING ERRCODE = 'MDS13';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_late(integer, int8multirange, jsonb, bigint[]) IS
    'Late records that are admitted wait, and the buckets gain them and nothing else.';
