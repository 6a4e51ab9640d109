CREATE OR REPLACE FUNCTION medusa.remove_trimmed(line medusa.stream_producer, segments_max integer)
RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    width    bigint;
    ids      bigint[];
    others   bigint[];
    files    bigint[];
    removed  bigint;
    row_sum  bigint;
    released jsonb;
BEGIN
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = line.stream;
    SELECT array_agg(t.segment_id) INTO ids FROM (
        SELECT s.segment_id FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us <= line.trimmed_us
        ORDER BY s.to_us LIMIT remove_trimmed.segments_max) AS t;
    SELECT array_agg(t.segment_id) INTO others FROM (
        SELECT s.segment_id FROM medusa.segment AS s
        WHERE s.end_version IS NOT NULL AND s.to_us <= line.trimmed_us
            AND int8range(s.line_id, s.line_id, '[]') && int8range(line.line_id, line.line_id, '[]')
            AND int8range(s.from_us, s.to_us) && int8range(NULL, line.trimmed_us)
        LIMIT remove_trimmed.segments_max - coalesce(cardinality(ids), 0)) AS t;
    WITH gone AS (
        DELETE FROM medusa.segment AS s WHERE s.segment_id = ANY (ids || others)
        RETURNING s.end_version, s.row_count, s.file_ids
    )
    SELECT count(*), coalesce(sum(g.row_count) FILTER (WHERE g.end_version IS NULL), 0),
        (SELECT array_agg(DISTINCT f) FROM gone, unnest(gone.file_ids) AS f)
    INTO removed, row_sum, files FROM gone AS g;
    WITH freed AS (
        SELECT b.batch_no, b.file_id FROM medusa.landed_batch AS b
        WHERE b.line_id = line.line_id AND b.file_id IS NOT NULL
            AND line.trimmed_us IS NOT NULL AND NOT EXISTS (
            SELECT FROM medusa.landed_bucket AS k
            WHERE k.line_id = b.line_id AND k.batch_no = b.batch_no
                AND k.bucket_us > line.trimmed_us - width)
    ), let_go AS (
        UPDATE medusa.landed_batch AS b SET file_id = NULL FROM freed
        WHERE b.batch_no = freed.batch_no RETURNING freed.file_id
    )
    SELECT files || array_agg(l.file_id) INTO files FROM let_go AS l;
    -- A late record of a trimmed bucket cannot be admitted any more: it stays in quarantine alone.
    DELETE FROM medusa.late_record AS l WHERE l.quarantine_id IN (
        SELECT w.quarantine_id FROM medusa.late_record AS w
        WHERE w.line_id = line.line_id AND w.bucket_us < line.trimmed_us
        ORDER BY w.bucket_us LIMIT 100 * remove_trimmed.segments_max::bigint);
    -- A landed file may be of several lines, which are trimmed at the same time.
    PERFORM FROM medusa.file AS f WHERE f.file_id = ANY (files) ORDER BY f.file_id FOR UPDATE;
    WITH gone AS (
        DELETE FROM medusa.file AS f
        WHERE f.file_id = ANY (files)
            AND NOT EXISTS (SELECT FROM medusa.segment AS s
                WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0)
            AND NOT EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = f.file_id)
        RETURNING f.path, f.size_bytes, f.sha256, f.rows
    )
    SELECT jsonb_agg(jsonb_build_array(g.path, g.size_bytes, g.sha256, g.rows) ORDER BY g.path)
    INTO released FROM gone AS g;
    RETURN jsonb_build_object('segments', removed, 'rows', row_sum, 'files', released,
        'has_more', removed >= remove_trimmed.segments_max);
END $$;
COMMENT ON FUNCTION medusa.remove_trimmed(medusa.stream_producer, integer) IS
    'Remove trimmed rows of a line, at most this many segments, and the files that only they '
    'named.';
