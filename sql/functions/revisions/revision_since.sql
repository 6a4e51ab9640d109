CREATE OR REPLACE FUNCTION medusa.revision_since(segment_id bigint, lineage jsonb) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.recall_id
    FROM medusa.segment AS t
    JOIN medusa.stream_producer AS o ON o.line_id = t.line_id
    JOIN medusa.lineage AS l ON l.commit_id = t.commit_id AND l.output = o.stream
    JOIN medusa.stream_producer AS i
        ON (i.stream, i.participant, i.replica) = (l.input, l.participant, l.replica)
    JOIN medusa.recall AS r ON r.line_id = i.line_id AND r.version > l.read_version
        AND r.changed && int8range(l.from_us, l.to_us)
    WHERE t.segment_id = revision_since.segment_id AND EXISTS (
        SELECT FROM jsonb_to_recordset(revision_since.lineage) AS n (output text, input text,
            participant text, replica integer, from_us bigint, to_us bigint, read_version bigint)
        WHERE (n.output, n.input, n.participant, n.replica) =
                (l.output, l.input, l.participant, l.replica)
            AND n.read_version >= r.version AND r.changed && int8range(n.from_us, n.to_us))
    ORDER BY r.recall_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa.revision_since(bigint, jsonb) IS
    'The last revision of something that a row was computed from and that a lineage reads as it is '
    'since; NULL: there is none.';
