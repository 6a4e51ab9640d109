CREATE OR REPLACE FUNCTION medusa.shared_segment(s medusa.segment) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('from_us', (s).from_us, 'to_us', (s).to_us, 'stability',
        (s).stability, 'version', (s).version, 'begin_version', (s).begin_version, 'end_version',
        (s).end_version, 'missing', (s).missing, 'plan', (s).plan, 'age_ms', 0, 'bucket_us',
        (s).bucket_us, 'bucket_rows', (s).bucket_rows, 'sum_a', array_to_string((s).sum_a, ','),
        'sum_b', array_to_string((s).sum_b, ','), 'files', (
            SELECT jsonb_agg(jsonb_build_array(f.path, f.size_bytes, f.sha256, f.rows) ORDER BY u.i)
            FROM unnest((s).file_ids) WITH ORDINALITY AS u (file_id, i)
            JOIN medusa.file AS f ON f.file_id = u.file_id))
$$;
COMMENT ON FUNCTION medusa.shared_segment(medusa.segment) IS 'A segment as the exchange server reads it.';
