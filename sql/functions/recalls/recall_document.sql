CREATE OR REPLACE FUNCTION medusa.recall_document(
    line_id integer, from_us bigint, generation integer, because text, who text
) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('stream', p.stream, 'participant', p.participant,
        'replica', p.replica, 'generation', coalesce(recall_document.generation, p.generation + 1),
        'from_us', greatest(recall_document.from_us, p.origin_us), 'version', p.last_version + 1,
        'because', recall_document.because, 'who', recall_document.who, 'recalled_at_ms', 0,
        'segments', count(t.segment_id), 'rows', coalesce(sum((
            SELECT sum(b.n) FROM unnest(t.bucket_us, t.bucket_rows) AS b (at_us, n)
            WHERE b.at_us >= recall_document.from_us)), 0))
    FROM medusa.stream_producer AS p JOIN medusa.segment AS t ON t.line_id = p.line_id
    WHERE p.line_id = recall_document.line_id AND t.end_version IS NULL
        AND t.to_us > recall_document.from_us
    GROUP BY p.line_id
$$;
COMMENT ON FUNCTION medusa.recall_document(integer, bigint, integer, text, text) IS
    'The rows that a recall of a line would take back; NULL if there are none.';
