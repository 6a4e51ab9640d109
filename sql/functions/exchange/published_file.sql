CREATE OR REPLACE FUNCTION medusa.published_file(partner text, sha256 text) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
BEGIN
    -- One by one: many streams may hold a file of the same content, and the first will do.
    FOR found IN SELECT f.* FROM medusa.file AS f WHERE f.sha256 = published_file.sha256 LOOP
        IF medusa_api.may_read(published_file.partner, found.stream)
            -- A landed file may hold records of other streams: only those of segments hold one
            -- alone.
            AND EXISTS (
                SELECT FROM medusa.segment AS s
                JOIN medusa.stream_producer AS p ON p.line_id = s.line_id
                JOIN medusa.home AS h ON h.participant = p.participant
                WHERE s.file_ids @> ARRAY[found.file_id] AND cardinality(s.file_ids) > 0
                    AND p.stream = found.stream AND p.replica >= 0)
        THEN
            RETURN jsonb_build_object('path', found.path, 'size_bytes', found.size_bytes,
                'sha256', found.sha256, 'rows', found.rows);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.published_file(text, text) IS
    'For the exchange server: the file with a hash, if it belongs to segments that this home has '
    'computed of a stream that a partner may read. NULL for everything else.';
