CREATE OR REPLACE FUNCTION medusa.recall_line(line_id integer, from_us bigint, because text,
    who text)
RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line  record;
    made  medusa.recall;
    olds  bigint[];
    taken bigint;
    cut   jsonb;
BEGIN
    SELECT p.*, s.kind INTO line
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.line_id = recall_line.line_id;
    SELECT array_agg(t.segment_id), coalesce(sum((
        SELECT sum(b.n) FROM unnest(t.bucket_us, t.bucket_rows) AS b (at_us, n)
        WHERE b.at_us >= recall_line.from_us)), 0)
    INTO olds, taken FROM medusa.segment AS t
    WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.to_us > recall_line.from_us;
    IF olds IS NULL THEN
        RETURN NULL;  -- nothing of it lies behind
    END IF;
    INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version)
    VALUES (line.line_id, line.generation + 1, greatest(recall_line.from_us, line.origin_us),
        recall_line.because, recall_line.who, line.last_version + 1)
    RETURNING * INTO made;
    cut := jsonb_build_array(jsonb_build_object('from_us', made.from_us,
        'to_us', 9223372036854775807));
    PERFORM medusa.supersede(old, made.version, cut) FROM unnest(olds) AS old;
    -- What is computed gets a new end; a source keeps its promised end, and its landed records close again.
    UPDATE medusa.stream_producer AS p
    SET generation = made.generation, last_version = made.version,
        boundary_us = least(p.boundary_us, made.from_us),
        end_us = CASE WHEN line.kind = 'source' THEN p.end_us END,
        compared_us = least(p.compared_us, made.from_us)
    WHERE p.line_id = line.line_id;
    PERFORM medusa.settle(made);
    INSERT INTO medusa.line_version (line_id, version, chain)
    SELECT line.line_id, made.version, sha256(medusa.chain_at(line.line_id, line.last_version)
        || sha256(convert_to('recall ' || made.generation || ' ' || made.from_us, 'UTF8')));
    PERFORM pg_notify('medusa_progress', '');
    RETURN jsonb_build_object('stream', line.stream, 'participant', line.participant,
        'replica', line.replica, 'generation', made.generation, 'from_us', made.from_us,
        'version', made.version, 'because', made.because, 'who', made.who,
        'recalled_at_ms', medusa.to_ms(made.recalled_at), 'segments', cardinality(olds),
        'rows', taken);
END $$;
COMMENT ON FUNCTION medusa.recall_line(integer, bigint, text, text) IS
    'Take back the rows of a line of this home from a bucket on, and begin its next '
    'generation.';
