CREATE OR REPLACE FUNCTION medusa.compact_line(
    stream text, participant text, replica integer, segments jsonb, file jsonb
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line     medusa.stream_producer;
    ids      bigint[];
    row_sum  bigint;
    olds     bigint[];
    new_id   bigint;
    released jsonb;
BEGIN
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (compact_line.stream, compact_line.participant, compact_line.replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(compact_line.stream, compact_line.participant,
            compact_line.replica);
    END IF;
    SELECT array_agg(s.segment_id), sum(s.row_count) INTO ids, row_sum
    FROM jsonb_to_recordset(compact_line.segments) AS r
        (from_us bigint, to_us bigint, version bigint)
    JOIN medusa.segment AS s ON s.line_id = line.line_id AND s.end_version IS NULL
        AND s.to_us = r.to_us AND s.from_us = r.from_us AND s.version = r.version
    WHERE s.stability <> 'tentative' AND s.bucket_count > 0;
    IF cardinality(ids) IS DISTINCT FROM jsonb_array_length(compact_line.segments) THEN
        RAISE EXCEPTION 'the segments of % to be compacted are not all there, final and with rows: '
            'read again', compact_line.stream USING ERRCODE = 'MD002';
    END IF;
    IF row_sum IS DISTINCT FROM (compact_line.file->>'rows')::bigint THEN
        RAISE EXCEPTION 'file % has % rows, the segments of % have %: write their rows',
            compact_line.file->>'path', compact_line.file->>'rows', compact_line.stream, row_sum
            USING ERRCODE = 'MD001';
    END IF;
    SELECT array_agg(DISTINCT f) INTO olds
    FROM medusa.segment AS s, unnest(s.file_ids) AS f WHERE s.segment_id = ANY (ids);
    new_id := (medusa.record_files(compact_line.stream, jsonb_build_array(compact_line.file)))[1];
    UPDATE medusa.segment AS s SET file_ids = ARRAY[new_id]
    WHERE s.segment_id = ANY (ids) AND s.file_ids <> ARRAY[new_id];
    WITH gone AS (
        DELETE FROM medusa.file AS f
        WHERE f.file_id = ANY (olds)
            AND NOT EXISTS (SELECT FROM medusa.segment AS s
                WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0)
            AND NOT EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = f.file_id)
        RETURNING f.path, f.size_bytes, f.sha256, f.rows
    )
    SELECT jsonb_agg(jsonb_build_array(g.path, g.size_bytes, g.sha256, g.rows) ORDER BY g.path)
    INTO released FROM gone AS g;
    RETURN coalesce(released, '[]');
END $$;
COMMENT ON FUNCTION medusa.compact_line(text, text, integer, jsonb, jsonb) IS
    'Let final segments name one file with the same rows; returns the files that nothing names.';
