CREATE OR REPLACE FUNCTION medusa.keep_late_records(records jsonb, numbers bigint[], batch_no bigint)
RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.late_record
        (quarantine_id, line_id, bucket_us, stime_us, row_bytes, sum_a, sum_b)
    SELECT numbers[r.i], b.line_id,
        r.late_us - (r.late_us % s.width_us + s.width_us) % s.width_us,
        r.late_us, decode(r.late_row, 'base64'), r.late_a, r.late_b
    FROM ROWS FROM (jsonb_to_recordset(records) AS (late_us bigint, late_row text, late_a numeric,
            late_b numeric)) WITH ORDINALITY AS r (late_us, late_row, late_a, late_b, i)
    JOIN medusa.landed_batch AS b ON b.batch_no = keep_late_records.batch_no
    JOIN medusa.stream AS s ON s.name = b.stream
    WHERE r.late_row IS NOT NULL
$$;
COMMENT ON FUNCTION medusa.keep_late_records(jsonb, bigint[], bigint) IS
    'Keep all values of the late records of a batch, whose numbers in quarantine are given in order.';
