CREATE OR REPLACE FUNCTION medusa.published_file(partner text, sha256 text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('path', f.path, 'size_bytes', f.size_bytes, 'sha256', f.sha256,
        'rows', f.rows)
    FROM medusa.file AS f
    WHERE f.sha256 = published_file.sha256 AND medusa_api.may_read(published_file.partner, f.stream)
        -- A landed file may hold records of other streams: only those of segments hold one alone.
        AND EXISTS (
            SELECT FROM medusa.segment AS s
            JOIN medusa.stream_producer AS p ON p.line_id = s.line_id
            JOIN medusa.home AS h ON h.participant = p.participant
            WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0
                AND p.stream = f.stream AND p.replica >= 0)
    ORDER BY f.file_id LIMIT 1
$$;
COMMENT ON FUNCTION medusa.published_file(text, text) IS
    'For the exchange server: the file with a hash, if it belongs to segments that this home has '
    'computed of a stream that a partner may read. NULL for everything else.';
